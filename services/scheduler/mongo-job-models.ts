import { type Connection, type Model, Schema } from "mongoose";
import { isDuplicateKey } from "../../lib/mongo/mongo-errors.ts";
import { type JobState, jobStates } from "./job.types.ts";
import type { JobLogLine, Leadership, OutboxEntry } from "./job-store.ts";

export type NumberedLine = JobLogLine & { seq: number };

/** A callback as it waits in its job's document; parameters as JSON. */
export type StoredEntry = Pick<OutboxEntry, "id" | "action"> & { params: string };

/**
 * One job. What is asked for has a field of its own; the rest is JSON text, which comes back exactly as it was given,
 * whatever keys a client's payload has, and costs nothing to encode.
 */
export interface JobDocument {
  _id: string;
  /** Guard of every change. */
  version: number;
  /** Term of the last writer. */
  term: number;
  /** Mark of the last write, different for each: tells its writer that it was this one that came through. */
  by: string;
  /** Number in the order of arrival. */
  place: number;
  state: JobState;
  kind: string;
  queue: string;
  owner: string;
  idempotencyKey?: string;
  /** The same while the job is pending or running; absent once it has ended, so that the index over it stays small. */
  active?: number;
  /** JSON of everything that changes. */
  life: string;
  /** JSON of what never changes; absent when it is so long that it is kept apart. */
  spec?: string;
  /** Number of the newest log line. */
  lines: number;
  /** The scheduler's own lines of this job; many are moved to the log. */
  log?: NumberedLine[];
  outbox?: StoredEntry[];
  /** Order among the callbacks that wait; absent when none does. */
  outboxAt?: number;
  /** Number of the change that ended the job; for the tally. */
  ended?: number;
  /** Ends that were taken back by a retry: their numbers and that of the retry. */
  reopened?: { ended: number; at: number; state: JobState }[];
}

export interface SpecDocument {
  _id: string;
  spec: string;
}
export type LogDocument = NumberedLine & { _id: string; jobId: string };
export type LeadershipDocument = Leadership & { _id: string };
/** How many jobs had ended, by queue and state, up to the change with this number. */
export interface TallyDocument {
  _id: string;
  upTo: number;
  /** A place that was given at that time: the newest is looked for above it. */
  places: number;
  term: number;
  counts: { queue: string; state: JobState; n: number }[];
}
export interface PausedQueueDocument {
  _id: string;
}

const text = { type: String, required: true } as const;
const number = { type: Number, required: true } as const;
const options = {
  strict: "throw",
  strictQuery: "throw",
  versionKey: false,
  autoIndex: false,
  autoCreate: false,
  minimize: false,
} as const;
const plain = { _id: false } as const;
const state = { type: String, required: true, enum: jobStates } as const;

const lineFields = {
  seq: number,
  at: number,
  attempt: number,
  level: { type: String, required: true, enum: ["info", "warn", "error"] },
  text: { type: String, default: "" },
} as const;

const jobSchema = new Schema<JobDocument>(
  {
    _id: text,
    version: number,
    term: number,
    by: text,
    place: number,
    state,
    kind: text,
    queue: text,
    owner: text,
    idempotencyKey: String,
    active: Number,
    life: text,
    spec: String,
    lines: number,
    log: { type: [new Schema(lineFields, plain)], default: undefined },
    outbox: {
      type: [new Schema({ id: text, action: text, params: text }, plain)],
      default: undefined,
    },
    outboxAt: Number,
    ended: Number,
    reopened: {
      type: [new Schema({ ended: number, at: number, state }, plain)],
      default: undefined,
    },
  },
  options,
);
// Lists ask for a range of places, so each filter's index ends in it.
for (const filter of ["state", "kind", "queue", "owner"] as const)
  jobSchema.index({ [filter]: 1, place: -1 });
jobSchema.index({ place: -1 });
jobSchema.index(
  { owner: 1, idempotencyKey: 1 },
  { unique: true, partialFilterExpression: { idempotencyKey: { $exists: true } } },
);
// Small ones: what has ended is in none of them.
jobSchema.index({ active: 1 }, { partialFilterExpression: { active: { $exists: true } } });
jobSchema.index({ outboxAt: 1 }, { partialFilterExpression: { outboxAt: { $exists: true } } });
jobSchema.index({ "outbox.id": 1 }, { partialFilterExpression: { outboxAt: { $exists: true } } });
jobSchema.index({ ended: 1 }, { partialFilterExpression: { ended: { $exists: true } } });
jobSchema.index({ "reopened.at": 1 }, { partialFilterExpression: { reopened: { $exists: true } } });

const specSchema = new Schema<SpecDocument>({ _id: text, spec: text }, options);

const logSchema = new Schema<LogDocument>({ _id: text, jobId: text, ...lineFields }, options);
logSchema.index({ jobId: 1, seq: 1 });

const leadershipSchema = new Schema<LeadershipDocument>(
  { _id: text, term: number, holder: { type: String, default: "" }, beat: number },
  options,
);

const tallySchema = new Schema<TallyDocument>(
  {
    _id: text,
    upTo: number,
    places: number,
    term: number,
    counts: [new Schema({ queue: text, state, n: number }, plain)],
  },
  options,
);

const pausedQueueSchema = new Schema<PausedQueueDocument>({ _id: text }, options);

export interface JobModels {
  jobs: Model<JobDocument>;
  specs: Model<SpecDocument>;
  logs: Model<LogDocument>;
  leadership: Model<LeadershipDocument>;
  tally: Model<TallyDocument>;
  pausedQueues: Model<PausedQueueDocument>;
}

/** The models of a connection, with their collections and indexes in place. */
export async function openJobModels(connection: Connection): Promise<JobModels> {
  const model = <D>(name: string, schema: Schema<D>): Model<D> =>
    (connection.models[name] as Model<D> | undefined) ??
    (connection.model(name, schema, name) as Model<D>);
  const models: JobModels = {
    jobs: model("jobs", jobSchema),
    specs: model("job_specs", specSchema),
    logs: model("job_logs", logSchema),
    leadership: model("job_leadership", leadershipSchema),
    tally: model("job_tally", tallySchema),
    pausedQueues: model("job_paused_queues", pausedQueueSchema),
  };
  await Promise.all((Object.values(models) as Model<unknown>[]).map(createIndexes));
  return models;
}

/** All indexes of a collection in one command; what is there already is left alone. */
async function createIndexes(model: Model<unknown>): Promise<void> {
  const indexes = model.schema.indexes().map(([key, { unique, partialFilterExpression }]) => ({
    key: key as Record<string, 1 | -1>,
    ...(unique ? { unique: true } : {}),
    ...(partialFilterExpression ? { partialFilterExpression } : {}),
  }));
  if (indexes.length > 0) await model.collection.createIndexes(indexes);
}

/** Puts the only document of a collection there, unless it is there. */
export async function insertOnce<D extends { _id: string }>(
  model: Model<D>,
  document: D,
): Promise<void> {
  try {
    await model.collection.insertOne(document as never);
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
  }
}

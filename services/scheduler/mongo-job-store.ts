import type { DependencyReporter } from "../../lib/dependency-state.ts";
import { acquireMongo, type MongoHandle } from "../../lib/mongo/connection.ts";
import { overMongo } from "../../lib/mongo/mongo-errors.ts";
import { type MongoJobLimits, mongoJobLimits } from "./config.ts";
import type { Job, JobState } from "./job.types.ts";
import type {
  ChangeResult,
  JobChange,
  JobLogLine,
  JobQuery,
  JobStore,
  Leadership,
  OutboxEntry,
} from "./job-store.ts";
import { jobOf } from "./mongo-job-document.ts";
import { movedJobs, takeOverJobs } from "./mongo-job-import.ts";
import { MongoLeadership } from "./mongo-job-leadership.ts";
import { MongoJobLog } from "./mongo-job-log.ts";
import {
  type JobDocument,
  type JobModels,
  openJobModels,
  type SpecDocument,
} from "./mongo-job-models.ts";
import { Ordinals, WriteOrdinals } from "./mongo-job-ordinals.ts";
import { MongoJobOutbox } from "./mongo-job-outbox.ts";
import { newestPlace, pageOf } from "./mongo-job-pages.ts";
import { JobTally } from "./mongo-job-tally.ts";
import { MongoJobWriter } from "./mongo-job-writer.ts";
import type { MovingJob, TakenOver } from "./moving-job.ts";

/**
 * Job store in MongoDB, without multi-document transactions: whatever must be atomic is one write of the job's
 * document, state, log lines and callbacks alike, guarded by version and term. A change is on the disks of the
 * majority before its promise resolves.
 */
export class MongoJobStore implements JobStore {
  readonly #handle: MongoHandle;
  readonly #models: JobModels;
  readonly #limits: MongoJobLimits;
  readonly #places = new Ordinals();
  readonly #numbers: WriteOrdinals;
  readonly #writer: MongoJobWriter;
  readonly #tally: JobTally;
  readonly #log: MongoJobLog;
  readonly #outbox: MongoJobOutbox;
  readonly #leadership: MongoLeadership;

  private constructor(handle: MongoHandle, models: JobModels, limits: MongoJobLimits) {
    this.#handle = handle;
    this.#models = models;
    this.#limits = limits;
    this.#numbers = new WriteOrdinals(limits.unsureMs);
    const ordinals = { places: this.#places, numbers: this.#numbers };
    this.#writer = new MongoJobWriter({
      models,
      ...ordinals,
      limits,
      read: (docs) => this.#jobs(docs),
    });
    this.#tally = new JobTally({ models, ...ordinals, limits });
    this.#log = new MongoJobLog(models, limits);
    this.#outbox = new MongoJobOutbox(models, limits);
    this.#leadership = new MongoLeadership(models, limits);
  }

  /** @throws ConfigError naming MONGO_URL when no server answers there. */
  static async open(
    url: string,
    reporter?: DependencyReporter,
    limits: MongoJobLimits = mongoJobLimits,
  ): Promise<MongoJobStore> {
    const handle = await acquireMongo(url, reporter);
    try {
      const models = await openJobModels(handle.connection);
      const store = new MongoJobStore(handle, models, limits);
      await store.#leadership.prepare();
      await store.#tally.prepare();
      await store.#catchUp();
      return store;
    } catch (error) {
      await handle.release();
      throw error;
    }
  }

  change(change: JobChange): Promise<ChangeResult> {
    return overMongo(async () => {
      const { next, term, log = [] } = change;
      // Each attempt may leave a line; the document must not grow with them for ever.
      const { attempt } = next.history;
      if (log.length > 0 && attempt > 0 && attempt % this.#limits.linesInJobMax === 0)
        await this.#log.spill(next.spec.id);
      const result = await this.#writer.write(change);
      this.#tally.wrote(term);
      return result;
    });
  }

  get(id: string): Promise<Job | undefined> {
    return this.#find({ _id: id });
  }

  findByIdempotencyKey(owner: string, idempotencyKey: string): Promise<Job | undefined> {
    return this.#find({ owner, idempotencyKey });
  }

  list(query: JobQuery): Promise<{ jobs: Job[]; next?: string }> {
    return overMongo(async () => {
      const { docs, next } = await pageOf(this.#models, query, this.#places.last, this.#limits);
      return { jobs: await this.#jobs(docs), next };
    });
  }

  counts(): Promise<Record<string, Record<JobState, number>>> {
    return overMongo(() => this.#tally.counts());
  }

  async *active(): AsyncIterable<Job> {
    const cursor = this.#models.jobs
      .find({ active: { $exists: true } })
      .lean<JobDocument[]>()
      .cursor({ batchSize: this.#limits.readMax });
    let docs: JobDocument[] = [];
    try {
      for await (const doc of cursor as AsyncIterable<JobDocument>) {
        docs.push(doc);
        if (docs.length < this.#limits.readMax) continue;
        yield* await this.#jobs(docs);
        docs = [];
      }
      yield* await this.#jobs(docs);
    } finally {
      await cursor.close();
    }
  }

  leadership(): Promise<Leadership> {
    return overMongo(() => this.#leadership.read());
  }

  takeOver(seen: Leadership, holder: string): Promise<Leadership | undefined> {
    return overMongo(async () => {
      const taken = await this.#leadership.claim(seen, holder);
      if (!taken) return undefined;
      await this.#tally.takeOver(taken.term);
      await this.#leadership.fence(taken.term);
      await this.#catchUp();
      const now = await this.#leadership.read();
      return now.term === taken.term ? now : undefined;
    });
  }

  renew(term: number): Promise<boolean> {
    return overMongo(() => this.#leadership.renew(term));
  }

  resign(term: number): Promise<void> {
    return overMongo(() => this.#leadership.resign(term));
  }

  strays(term: number): Promise<Job[]> {
    return overMongo(async () => this.#jobs(await this.#leadership.strays(term)));
  }

  appendLog(jobId: string, lines: JobLogLine[]): Promise<void> {
    return overMongo(() => this.#log.append(jobId, lines));
  }

  readLog(jobId: string, page: { after?: number; limit: number }) {
    return overMongo(() => this.#log.read(jobId, page));
  }

  outboxPending(limit: number): Promise<OutboxEntry[]> {
    return overMongo(() => this.#outbox.pending(limit));
  }

  outboxDone(ids: readonly string[]): Promise<void> {
    return overMongo(() => this.#outbox.done(ids));
  }

  async setQueuePaused(queue: string, paused: boolean): Promise<void> {
    const { pausedQueues } = this.#models;
    await overMongo<unknown>(() =>
      paused
        ? pausedQueues.updateOne({ _id: queue }, {}, { upsert: true })
        : pausedQueues.deleteOne({ _id: queue }),
    );
  }

  pausedQueues(): Promise<string[]> {
    return overMongo(async () => {
      const queues = await this.#models.pausedQueues.find().lean<{ _id: string }[]>();
      return queues.map(({ _id }) => _id).sort();
    });
  }

  /** Takes jobs over from another store; at most a few hundred at a time. The caller leads under `term`. */
  takeOverJobs(moving: readonly MovingJob[], term: number): Promise<TakenOver> {
    const { specInlineChars } = this.#limits;
    return overMongo(() => takeOverJobs(this.#models, moving, { term, specInlineChars }));
  }

  /** Jobs with all that belongs to them, to compare with those of another store. */
  movedJobs(ids: readonly string[]): Promise<MovingJob[]> {
    return overMongo(() => movedJobs(this.#models, ids, (docs) => this.#jobs(docs)));
  }

  /** No job has a greater place, and the sums of ended jobs have reached no greater number. */
  async lastPlace(): Promise<number> {
    await overMongo(() => this.#catchUp());
    return Math.max(this.#places.last, this.#numbers.last);
  }

  async close(): Promise<void> {
    await this.#tally.idle();
    await this.#handle.release();
  }

  async #catchUp(): Promise<void> {
    const { jobs } = this.#models;
    const { upTo, places } = await this.#tally.read();
    this.#numbers.reach(await newestNumber(jobs, Math.max(upTo, this.#numbers.last)));
    this.#places.reach(await newestPlace(jobs, Math.max(places, this.#places.last)));
  }

  #find(filter: { _id: string } | { owner: string; idempotencyKey: string }) {
    return overMongo(async () => {
      const doc = await this.#models.jobs.findOne(filter).lean<JobDocument>();
      return doc ? (await this.#jobs([doc]))[0] : undefined;
    });
  }

  /** Documents to jobs, with the specifications that are kept apart. */
  async #jobs(docs: readonly JobDocument[]): Promise<Job[]> {
    const missing = docs.filter(({ spec }) => spec === undefined).map(({ _id }) => _id);
    const apart =
      missing.length > 0
        ? await this.#models.specs.find({ _id: { $in: missing } }).lean<SpecDocument[]>()
        : [];
    const specs = new Map(apart.map(({ _id, spec }) => [_id, spec]));
    return docs.map((doc) => {
      const spec = doc.spec ?? specs.get(doc._id);
      if (spec === undefined) throw new Error(`job ${doc._id} has lost its specification`);
      return jobOf(doc, spec);
    });
  }
}

/** The greatest number of a write that a job bears, if it is above this one. */
async function newestNumber(jobs: JobModels["jobs"], above: number): Promise<number> {
  const top = async (field: "ended" | "reopened.at") => {
    const doc = await jobs
      .findOne(
        // FerretDB uses a partial index only where its own condition is among the query's.
        { [field.split(".")[0]!]: { $exists: true }, [field]: { $gt: above } },
        { ended: 1, reopened: 1 },
      )
      .sort({ [field]: -1 })
      .lean<Pick<JobDocument, "ended" | "reopened">>();
    return doc ? [doc.ended ?? 0, ...(doc.reopened ?? []).map(({ at }) => at)] : [];
  };
  const numbers = await Promise.all([top("ended"), top("reopened.at")]);
  return Math.max(above, ...numbers.flat());
}

import { isEnded } from "./job.step.ts";
import type { Job, JobSpec, JobState } from "./job.types.ts";
import type { JobChange, JobLogLine, OutboxEntry } from "./job-store.ts";
import type { JobDocument, NumberedLine, StoredEntry } from "./mongo-job-models.ts";

/** A change on its way to the database. */
export interface Write {
  change: JobChange;
  /** Of a new job. */
  place: number;
  /** Of a write that ends a job, takes its end back or leaves callbacks; else 0. */
  number: number;
  /** Mark of this very write. */
  by: string;
  /** JSON of everything that changes. */
  life: string;
  /** JSON of a new job's specification, unless it is kept apart. */
  spec?: string;
  /** The specification was put apart for this very write. */
  putApart?: boolean;
}

export const lifeOf = ({ spec: _, ...life }: Job): string => JSON.stringify(life);

/** The ended job that a change moves on, as it was read. */
export interface EndedBefore {
  ended: number;
  state: JobState;
}

const numbered = (lines: readonly JobLogLine[]): NumberedLine[] =>
  lines.map(({ at, attempt, level, text }, n) => ({ seq: n + 1, at, attempt, level, text }));

const stored = (entries: readonly OutboxEntry[]): StoredEntry[] =>
  entries.map(({ id, action, params }) => ({ id, action, params: JSON.stringify(params) }));

export const entryOf = (jobId: string, { id, action, params }: StoredEntry): OutboxEntry => ({
  id,
  jobId,
  action,
  params: JSON.parse(params),
});

/** What changes with each write, whatever the job's next state. */
function changing({ change: { next, term }, by, life }: Write) {
  return { version: next.history.version, term, by, state: next.state, life };
}

export const jobOf = (doc: Pick<JobDocument, "life">, spec: string): Job =>
  ({ spec: JSON.parse(spec) as JobSpec, ...JSON.parse(doc.life) }) as Job;

export function newDocument(write: Write): JobDocument {
  const { change, place, number, spec } = write;
  const { log = [], outbox = [] } = change;
  const { id, kind, queue, owner, idempotencyKey } = change.next.spec;
  return {
    _id: id,
    ...changing(write),
    place,
    kind,
    queue,
    owner,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(isEnded(change.next.state) ? { ended: number } : { active: change.term }),
    ...(spec === undefined ? {} : { spec }),
    lines: log.length,
    ...(log.length > 0 ? { log: numbered(log) } : {}),
    ...(outbox.length > 0 ? { outbox: stored(outbox), outboxAt: number } : {}),
  };
}

/**
 * One atomic update: guard, state, log lines and callbacks. Log lines are numbered by the server, as only it knows the
 * newest number; values of clients are literals there, whatever they begin with.
 */
export function updateOf(write: Write, before?: EndedBefore) {
  const { change, number } = write;
  const { next, term, expectedVersion, log = [], outbox = [] } = change;
  const ends = isEnded(next.state);
  // Staying in the same end is no news for the tally.
  const stays = ends && before?.state === next.state;
  const set: Record<string, unknown> = changing(write);
  if (ends && !stays) set["ended"] = number;
  if (!ends) set["active"] = term;
  const unset = ends ? ["active"] : before ? ["ended"] : [];
  const lists: Record<string, unknown[]> = {
    ...(log.length > 0 ? { log: numbered(log) } : {}),
    ...(outbox.length > 0 ? { outbox: stored(outbox) } : {}),
    ...(before && !stays
      ? { reopened: [{ ended: before.ended, at: number, state: before.state }] }
      : {}),
  };
  const filter = {
    _id: next.spec.id,
    version: expectedVersion,
    ...(before ? { ended: before.ended, term: { $lte: term } } : { active: { $lte: term } }),
  };
  if (log.length === 0) {
    const push = Object.entries(lists).map(([field, $each]) => [field, { $each }]);
    return {
      filter,
      update: {
        $set: set,
        ...(unset.length > 0 ? { $unset: Object.fromEntries(unset.map((name) => [name, 1])) } : {}),
        ...(push.length > 0 ? { $push: Object.fromEntries(push) } : {}),
        ...(outbox.length > 0 ? { $min: { outboxAt: number } } : {}),
      },
    };
  }
  const { log: lines, ...others } = lists as { log: NumberedLine[] };
  const append = (field: string, values: unknown) => ({
    $concatArrays: [{ $ifNull: [`$${field}`, []] }, values],
  });
  const $set: Record<string, unknown> = {
    ...set,
    lines: { $add: ["$lines", lines.length] },
    log: append(
      "log",
      lines.map(({ seq, ...line }) => ({
        $mergeObjects: [{ $literal: line }, { seq: { $add: ["$lines", seq] } }],
      })),
    ),
    ...(outbox.length > 0 ? { outboxAt: { $ifNull: ["$outboxAt", number] } } : {}),
  };
  for (const [field, values] of Object.entries(others))
    $set[field] = append(field, { $literal: values });
  return { filter, update: [{ $set }, ...(unset.length > 0 ? [{ $unset: unset }] : [])] };
}

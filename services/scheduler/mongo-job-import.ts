import type { Job } from "./job.types.ts";
import { keepsLine } from "./memory-job-store.ts";
import { bulkErrors, failureOf, isDuplicate, type OperationError } from "./mongo-bulk.ts";
import { entryOf, lifeOf, newDocument } from "./mongo-job-document.ts";
import type { JobDocument, JobModels, LogDocument, NumberedLine } from "./mongo-job-models.ts";
import type { MovingJob, TakenOver } from "./moving-job.ts";

/** In a job's document instead of the mark of a leader's write. */
const MARK = "moved";

/**
 * Takes jobs over from another store as they are: version, state, lease, place, numbers of log lines. A job's document
 * comes last, after its long specification and its log, so whatever breaks off leaves a job whole or out, and doing the
 * same again goes on from there. What is there already stays as it is.
 * @param term of whoever leads meanwhile.
 */
export async function takeOverJobs(
  { jobs, specs, logs }: JobModels,
  moving: readonly MovingJob[],
  { term, specInlineChars }: { term: number; specInlineChars: number },
): Promise<TakenOver> {
  const there = await jobs
    .find({ _id: { $in: moving.map(({ job }) => job.spec.id) } }, { _id: 1 })
    .lean<{ _id: string }[]>();
  const known = new Set(there.map(({ _id }) => _id));
  const missing = moving.filter(({ job }) => !known.has(job.spec.id));
  const refused = await keptOut(jobs, missing);
  const free = missing.filter(({ job }) => !refused.some(({ id }) => id === job.spec.id));
  const texts = new Map(free.map(({ job }) => [job.spec.id, JSON.stringify(job.spec)]));
  const isApart = (id: string) => texts.get(id)!.length > specInlineChars;
  await insertNew(
    specs.collection,
    [...texts].filter(([id]) => isApart(id)).map(([_id, spec]) => ({ _id, spec })),
  );
  await insertNew(
    logs.collection,
    free.flatMap(({ job: { spec }, log }) =>
      log.map((line) => ({ _id: `${spec.id}:${line.seq}`, jobId: spec.id, ...line })),
    ),
  );
  const documents = free.map((one) =>
    documentOf(one, term, isApart(one.job.spec.id) ? undefined : texts.get(one.job.spec.id)),
  );
  await insertNew(jobs.collection, documents);
  return { added: documents.map(({ _id }) => _id), refused };
}

function documentOf(
  { job: next, place, log, outbox }: MovingJob,
  term: number,
  spec: string | undefined,
): JobDocument {
  const change = { next, term, expectedVersion: 0, outbox: [...outbox] };
  const document = newDocument({
    change,
    place,
    number: place,
    by: MARK,
    life: lifeOf(next),
    ...(spec === undefined ? {} : { spec }),
  });
  return { ...document, lines: log.at(-1)?.seq ?? 0 };
}

/** Jobs whose idempotency key belongs to another job there. */
async function keptOut(
  jobs: JobModels["jobs"],
  moving: readonly MovingJob[],
): Promise<TakenOver["refused"]> {
  const keyed = moving.filter(({ job }) => job.spec.idempotencyKey !== undefined);
  const byOwner = Map.groupBy(keyed, ({ job }) => job.spec.owner);
  const refused: TakenOver["refused"] = [];
  for (const [owner, own] of byOwner) {
    const ids = new Map(own.map(({ job: { spec } }) => [spec.idempotencyKey!, spec.id]));
    const found = await jobs
      .find({ owner, idempotencyKey: { $in: [...ids.keys()] } }, { idempotencyKey: 1 })
      .lean<Pick<JobDocument, "_id" | "idempotencyKey">[]>();
    for (const { _id: by, idempotencyKey } of found)
      refused.push({ id: ids.get(idempotencyKey!)!, by });
  }
  return refused;
}

interface Insertable {
  insertMany(docs: never[], options: { ordered: false }): Promise<unknown>;
}

/** What is there already by an earlier try is the same. */
async function insertNew(
  collection: Insertable,
  documents: readonly { _id: string }[],
): Promise<void> {
  if (documents.length === 0) return;
  const errors: ReadonlyMap<number, OperationError> = await bulkErrors(() =>
    collection.insertMany([...documents] as never[], { ordered: false }),
  );
  for (const error of errors.values()) if (!isDuplicate(error)) throw failureOf(error);
}

/**
 * Jobs by their ids, with all that belongs to them, in no order.
 * @param read The jobs of documents.
 */
export async function movedJobs(
  { jobs, logs }: JobModels,
  ids: readonly string[],
  read: (docs: readonly JobDocument[]) => Promise<Job[]>,
): Promise<MovingJob[]> {
  const [docs, lines] = await Promise.all([
    jobs.find({ _id: { $in: [...ids] } }).lean<JobDocument[]>(),
    logs.find({ jobId: { $in: [...ids] } }).lean<LogDocument[]>(),
  ]);
  const linesOf = Map.groupBy(lines, ({ jobId }) => jobId);
  return (await read(docs)).map((job, n) => {
    const doc = docs[n]!;
    const log = new Map<number, NumberedLine>();
    for (const { seq, at, attempt, level, text } of [
      ...(linesOf.get(doc._id) ?? []),
      ...(doc.log ?? []),
    ])
      if (keepsLine({ seq, level }, doc.lines)) log.set(seq, { seq, at, attempt, level, text });
    return {
      job,
      place: doc.place,
      log: [...log.values()].sort((a, b) => a.seq - b.seq),
      outbox: (doc.outbox ?? []).map((entry) => entryOf(doc._id, entry)),
    };
  });
}

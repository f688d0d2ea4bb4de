import { Mailbox } from "../../mixins/mailbox.ts";
import { logLinesMax, type MongoJobLimits } from "./config.ts";
import type { JobLogLine } from "./job-store.ts";
import { bulkErrors, failureOf, isDuplicate } from "./mongo-bulk.ts";
import type { JobDocument, JobModels, LogDocument, NumberedLine } from "./mongo-job-models.ts";

const lineId = (jobId: string, seq: number) => `${jobId}:${seq}`;

/** What is kept of a log whose newest line has the number `newest`; the same rule as `keepsLine`. */
const kept = (newest: number) => [
  { seq: { $gt: newest - logLinesMax } },
  { seq: { $gt: newest - 2 * logLinesMax }, level: { $ne: "info" as const } },
];

/**
 * Logs of jobs. The scheduler's own lines are written into the job's document with the change that they belong to;
 * what nodes send goes to a collection, with numbers that the document gives out. A line has the same id however often
 * it is written, so moving lines from the one to the other may be repeated.
 */
export class MongoJobLog {
  readonly #models: JobModels;
  readonly #limits: MongoJobLimits;
  /** Lines of one job come in one after the other, so that nobody who pages sees a gap filled later. */
  readonly #mailbox: Mailbox<readonly JobLogLine[], void>;

  constructor(models: JobModels, limits: MongoJobLimits) {
    this.#models = models;
    this.#limits = limits;
    this.#mailbox = new Mailbox({
      handle: (jobId, lines) => this.#append(jobId, lines),
      waitingMax: this.#limits.appendsWaitingMax,
    });
  }

  async append(jobId: string, lines: readonly JobLogLine[]): Promise<void> {
    if (lines.length > 0) await this.#mailbox.send(jobId, lines);
  }

  async read(
    jobId: string,
    { after = 0, limit }: { after?: number; limit: number },
  ): Promise<{ lines: NumberedLine[] }> {
    const job = await this.#models.jobs
      .findById(jobId, { lines: 1, log: 1 })
      .lean<Pick<JobDocument, "lines" | "log">>();
    if (!job) return { lines: [] };
    const stored = await this.#models.logs
      .find({ jobId, seq: { $gt: after }, $or: kept(job.lines) })
      .sort({ seq: 1 })
      .limit(limit)
      .lean<LogDocument[]>();
    const lines = new Map<number, NumberedLine>();
    for (const { seq, at, attempt, level, text } of [...stored, ...(job.log ?? [])])
      if (seq > after) lines.set(seq, { seq, at, attempt, level, text });
    return { lines: [...lines.values()].sort((a, b) => a.seq - b.seq).slice(0, limit) };
  }

  /** Moves lines out of the job's document when there are many; to be called before it gets more. */
  async spill(jobId: string): Promise<void> {
    const job = await this.#models.jobs
      .findById(jobId, { log: 1 })
      .lean<Pick<JobDocument, "log">>();
    const log = job?.log ?? [];
    if (log.length >= this.#limits.linesInJobMax) await this.#moveOut(jobId, log);
  }

  async #append(jobId: string, lines: readonly JobLogLine[]): Promise<void> {
    const job = await this.#models.jobs
      .findOneAndUpdate(
        { _id: jobId },
        { $inc: { lines: lines.length } },
        { returnDocument: "after", projection: { lines: 1, log: 1 } },
      )
      .lean<Pick<JobDocument, "lines" | "log">>();
    if (!job) return;
    const first = job.lines - lines.length + 1;
    await this.#insert(
      jobId,
      lines.map(({ at, attempt, level, text }, n) => ({
        seq: first + n,
        at,
        attempt,
        level,
        text,
      })),
    );
    if (job.log && job.log.length >= this.#limits.linesInJobMax)
      await this.#moveOut(jobId, job.log);
    // Readers leave out what is too old; it goes for good now and then.
    const each = this.#limits.trimEachLines;
    if (job.lines > logLinesMax && Math.floor(job.lines / each) > Math.floor((first - 1) / each))
      await this.#models.logs.deleteMany({ jobId, $nor: kept(job.lines) });
  }

  async #moveOut(jobId: string, log: readonly NumberedLine[]): Promise<void> {
    await this.#insert(jobId, log);
    const newest = log.at(-1)!.seq;
    await this.#models.jobs.updateOne(
      { _id: jobId },
      { $pull: { log: { seq: { $lte: newest } } } },
    );
  }

  async #insert(jobId: string, lines: readonly NumberedLine[]): Promise<void> {
    const docs = lines.map((line) => ({ _id: lineId(jobId, line.seq), jobId, ...line }));
    const errors = await bulkErrors(() =>
      this.#models.logs.collection.insertMany(docs as never[], { ordered: false }),
    );
    // What is there already is the same line.
    for (const error of errors.values()) if (!isDuplicate(error)) throw failureOf(error);
  }
}

import type { MongoJobLimits } from "./config.ts";
import type { Leadership } from "./job-store.ts";
import {
  insertOnce,
  type JobDocument,
  type JobModels,
  type LeadershipDocument,
} from "./mongo-job-models.ts";

const LEADER = "leader";

/** Active jobs of earlier terms. Without the first condition FerretDB reads every job there ever was. */
const activeBelow = (term: number) => ({ active: { $exists: true, $lt: term } });

/**
 * Who leads, and that nobody else can change a job: the document says who, and each active job carries the term of
 * its last writer, which every change compares in the very write.
 */
export class MongoLeadership {
  readonly #models: JobModels;
  readonly #limits: MongoJobLimits;
  /** Found and raised, but not yet told to the leader: an answer may have got lost. */
  readonly #strays = new Set<string>();

  constructor(models: JobModels, limits: MongoJobLimits) {
    this.#models = models;
    this.#limits = limits;
  }

  async read(): Promise<Leadership> {
    const found = await this.#models.leadership.findById(LEADER).lean<LeadershipDocument>();
    const { term = 0, holder = "", beat = 0 } = found ?? {};
    return { term, holder, beat };
  }

  /** There is a document to compare with. */
  async prepare(): Promise<void> {
    await insertOnce(this.#models.leadership, { _id: LEADER, term: 0, holder: "", beat: 0 });
  }

  /** Compare-and-set on the document alone; `fence` must follow before anything is promised. */
  async claim(seen: Leadership, holder: string): Promise<Leadership | undefined> {
    const next = { term: seen.term + 1, holder, beat: 0 };
    const { matchedCount } = await this.#models.leadership.updateOne(
      { _id: LEADER, term: seen.term, beat: seen.beat },
      { $set: next },
    );
    return matchedCount === 1 ? next : undefined;
  }

  /**
   * Raises the term of all active jobs. Renews meanwhile: with very many jobs it may take longer than a lease.
   * A crash before its end leaves jobs of both terms; the next leader raises them all.
   */
  async fence(term: number): Promise<void> {
    const renewals = setInterval(() => {
      // Whoever has taken over meanwhile is noticed by the next renewal that counts.
      this.renew(term).catch(() => undefined);
    }, this.#limits.fenceRenewMs);
    try {
      await this.#models.jobs.updateMany(activeBelow(term), { $max: { term, active: term } });
    } finally {
      clearInterval(renewals);
    }
  }

  async renew(term: number): Promise<boolean> {
    const { matchedCount } = await this.#models.leadership.updateOne(
      { _id: LEADER, term },
      { $inc: { beat: 1 } },
    );
    return matchedCount === 1;
  }

  async resign(term: number): Promise<void> {
    await this.#models.leadership.updateOne({ _id: LEADER, term }, { $set: { holder: "" } });
  }

  /** Active jobs whose last writer had an earlier term, with the term raised. */
  async strays(term: number): Promise<JobDocument[]> {
    const found = await this.#models.jobs
      .find(activeBelow(term), { _id: 1 })
      .lean<{ _id: string }[]>();
    for (const { _id } of found) this.#strays.add(_id);
    const ids = [...this.#strays];
    if (ids.length === 0) return [];
    await this.#models.jobs.updateMany(
      { _id: { $in: ids }, active: { $lt: term } },
      { $max: { term, active: term } },
    );
    const strays = await this.#models.jobs
      .find({ _id: { $in: ids }, active: term })
      .lean<JobDocument[]>();
    for (const id of ids) this.#strays.delete(id);
    return strays;
  }
}

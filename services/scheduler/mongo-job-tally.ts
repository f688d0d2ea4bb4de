import type { MongoJobLimits } from "./config.ts";
import type { JobState } from "./job.types.ts";
import { jobStates } from "./job.types.ts";
import { insertOnce, type JobModels, type TallyDocument } from "./mongo-job-models.ts";
import type { Ordinals, WriteOrdinals } from "./mongo-job-ordinals.ts";

const TALLY = "tally";

interface Counted {
  queue: string;
  state: JobState;
  n: number;
}

/** Sums by queue and state. */
class Sums {
  readonly #sums = new Map<string, Counted>();

  add({ queue, state, n }: Counted): void {
    const key = `${state}\0${queue}`;
    const sum = this.#sums.get(key) ?? { queue, state, n: 0 };
    sum.n += n;
    this.#sums.set(key, sum);
  }

  addAll(counted: readonly Counted[]): this {
    for (const one of counted) this.add(one);
    return this;
  }

  get all(): Counted[] {
    return [...this.#sums.values()].filter(({ n }) => n !== 0);
  }
}

interface TallyPorts {
  models: JobModels;
  places: Ordinals;
  numbers: WriteOrdinals;
  limits: MongoJobLimits;
}

/**
 * Counts without looking at every job. Each end of a job has a number, stored with the job in the same write. One
 * document holds the sums up to a number; what came later is few and counted by its index. The leader moves the number
 * on, by compare-and-set, up to where every write has been answered. A retry takes an end back: it leaves both numbers
 * with the job, so that any cut between them counts right. Nothing depends on how far the sums have got: a crash
 * loses nothing but the work of one move.
 */
export class JobTally {
  readonly #models: JobModels;
  readonly #limits: MongoJobLimits;
  readonly #places: Ordinals;
  readonly #numbers: WriteOrdinals;
  #moving: Promise<void> | undefined;
  /** Sums of this process reach up to here. */
  #upTo = 0;
  /** When everything is counted anew, once after a take-over. */
  #recountAt = Number.POSITIVE_INFINITY;

  constructor({ models, places, numbers, limits }: TallyPorts) {
    this.#models = models;
    this.#limits = limits;
    this.#places = places;
    this.#numbers = numbers;
  }

  /** There is a document to compare with. */
  async prepare(): Promise<void> {
    await insertOnce(this.#models.tally, { _id: TALLY, upTo: 0, places: 0, term: 0, counts: [] });
  }

  async read(): Promise<TallyDocument> {
    const tally = await this.#models.tally.findById(TALLY).lean<TallyDocument>();
    return tally ?? { _id: TALLY, upTo: 0, places: 0, term: 0, counts: [] };
  }

  /**
   * Sums of earlier leaders are refused from now on. After a while everything is counted anew: a retry that the
   * earlier leader had under way may come through behind the sums that should have it, and so may a restored backup.
   */
  async takeOver(term: number): Promise<void> {
    this.#recountAt = performance.now() + this.#limits.tallyRecountMs;
    await this.#models.tally.updateOne({ _id: TALLY, term: { $lt: term } }, { $set: { term } });
  }

  async counts(): Promise<Record<string, Record<JobState, number>>> {
    const [tally, active] = await Promise.all([
      this.read(),
      this.#models.jobs.aggregate<{ _id: Omit<Counted, "n">; n: number }>([
        { $match: { active: { $exists: true } } },
        { $group: { _id: { queue: "$queue", state: "$state" }, n: { $sum: 1 } } },
      ]),
    ]);
    const ended = await this.#ended(tally.upTo, Number.MAX_SAFE_INTEGER);
    const sums = new Sums().addAll(tally.counts).addAll(ended);
    sums.addAll(active.map(({ _id, n }) => ({ ..._id, n })));
    const counts: Record<string, Record<JobState, number>> = {};
    for (const { queue, state, n } of sums.all) {
      counts[queue] ??= Object.fromEntries(jobStates.map((name) => [name, 0])) as Record<
        JobState,
        number
      >;
      counts[queue][state] = n;
    }
    return counts;
  }

  /** Tells of the leader's writes. The sums are moved on, beside other work, when many jobs have ended since. */
  wrote(term: number): void {
    if (this.#moving) return;
    const recounts = performance.now() >= this.#recountAt;
    if (!recounts && this.#numbers.settled - this.#upTo < this.#limits.tallyEach) return;
    if (recounts) this.#recountAt = Number.POSITIVE_INFINITY;
    this.#moving = this.#move(term, recounts)
      // The next write tries again; until then counting costs a little more.
      .catch(() => undefined)
      .finally(() => {
        this.#moving = undefined;
      });
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    await this.#moving;
  }

  async #move(term: number, recounts: boolean): Promise<void> {
    const { upTo, counts } = await this.read();
    const next = this.#numbers.settled;
    if (next <= upTo) {
      this.#upTo = upTo;
      return;
    }
    const sums = new Sums()
      .addAll(recounts ? [] : counts)
      .addAll(await this.#ended(recounts ? 0 : upTo, next));
    const moved = await this.#models.tally.updateOne(
      { _id: TALLY, upTo, term: { $lte: term } },
      { $set: { upTo: next, places: this.#places.last, counts: sums.all } },
    );
    if (moved.matchedCount === 1) this.#upTo = next;
  }

  /** Ends less retries whose number is above `from` and not above `to`. */
  async #ended(from: number, to: number): Promise<Counted[]> {
    const [ends, reopened] = await Promise.all([
      this.#models.jobs.aggregate<{ _id: Omit<Counted, "n">; n: number }>([
        { $match: { ended: { $exists: true, $gt: from, $lte: to } } },
        { $group: { _id: { queue: "$queue", state: "$state" }, n: { $sum: 1 } } },
      ]),
      this.#models.jobs
        .find(
          // Without the first condition FerretDB does not use the partial index.
          { reopened: { $exists: true }, "reopened.at": { $gt: from } },
          { queue: 1, reopened: 1 },
        )
        .lean<{ queue: string; reopened: { ended: number; at: number; state: JobState }[] }[]>(),
    ]);
    const sums = new Sums().addAll(ends.map(({ _id, n }) => ({ ..._id, n })));
    const within = (number: number) => number > from && number <= to;
    for (const { queue, reopened: pairs } of reopened)
      for (const { ended, at, state } of pairs)
        sums.add({ queue, state, n: Number(within(ended)) - Number(within(at)) });
    return sums.all;
  }
}

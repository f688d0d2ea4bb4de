/** What became of one item of a group. */
export type Outcome<R> = { value: R } | { error: unknown };

interface Waiting<T, R> {
  item: T;
  resolve: (value: R) => void;
  reject: (error: unknown) => void;
}

/**
 * Gathers items that come while others are under way and writes them together: one round trip and one sync for many.
 * Items with the same key never share a group or overtake each other.
 */
export class GroupCommit<T, R> {
  readonly #write: (items: readonly T[]) => Promise<readonly Outcome<R>[]>;
  readonly #keyOf: (item: T) => string;
  readonly #groupMax: number;
  readonly #underWayMax: number;
  #ready: Waiting<T, R>[] = [];
  /** Keys that are ready or under way, with what waits behind them. */
  readonly #busy = new Map<string, Waiting<T, R>[]>();
  #underWay = 0;
  #scheduled = false;

  constructor(options: {
    /** Gives an outcome for each item, in their order; rejects when nothing is known of any. */
    write: (items: readonly T[]) => Promise<readonly Outcome<R>[]>;
    keyOf: (item: T) => string;
    groupMax: number;
    /** Groups under way at the same time. */
    underWayMax: number;
  }) {
    this.#write = options.write;
    this.#keyOf = options.keyOf;
    this.#groupMax = options.groupMax;
    this.#underWayMax = options.underWayMax;
  }

  add(item: T): Promise<R> {
    return new Promise((resolve, reject) => {
      const waiting = { item, resolve, reject };
      const behind = this.#busy.get(this.#keyOf(item));
      if (behind) {
        behind.push(waiting);
        return;
      }
      this.#busy.set(this.#keyOf(item), []);
      this.#ready.push(waiting);
      this.#schedule();
    });
  }

  /** What is given in the same turn of the event loop goes together. */
  #schedule(): void {
    if (this.#scheduled || this.#underWay >= this.#underWayMax || this.#ready.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      while (this.#ready.length > 0 && this.#underWay < this.#underWayMax) void this.#send();
    });
  }

  async #send(): Promise<void> {
    const group = this.#ready.splice(0, this.#groupMax);
    this.#underWay += 1;
    try {
      const outcomes = await this.#write(group.map(({ item }) => item));
      group.forEach(({ resolve, reject }, n) => {
        const outcome = outcomes[n]!;
        if ("error" in outcome) reject(outcome.error);
        else resolve(outcome.value);
      });
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
    this.#underWay -= 1;
    for (const { item } of group) {
      const key = this.#keyOf(item);
      const next = this.#busy.get(key)?.shift();
      if (next) this.#ready.push(next);
      else this.#busy.delete(key);
    }
    this.#schedule();
  }
}

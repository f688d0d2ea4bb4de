/** Numbers that only rise, each given once. */
export class Ordinals {
  #last = 0;

  get last(): number {
    return this.#last;
  }

  take(): number {
    this.#last += 1;
    return this.#last;
  }

  /** No number up to here is given again. */
  reach(number: number): void {
    this.#last = Math.max(this.#last, number);
  }
}

/**
 * Numbers of writes. Up to `settled` every write with a number has been answered, so that whoever counts up to there
 * misses none.
 */
export class WriteOrdinals extends Ordinals {
  readonly #unsureMs: number;
  /** Under way, in rising order. */
  readonly #open = new Set<number>();
  /** Without an answer: they may still come through for a while. Number to the time at which they cannot any more. */
  readonly #unsure = new Map<number, number>();

  constructor(unsureMs: number) {
    super();
    this.#unsureMs = unsureMs;
  }

  /** Does a write with a number of its own; when it rejects, its outcome is unknown. */
  async use<T>(write: (number: number) => Promise<T>): Promise<T> {
    const number = this.take();
    this.#open.add(number);
    try {
      return await write(number);
    } catch (error) {
      this.#unsure.set(number, performance.now() + this.#unsureMs);
      throw error;
    } finally {
      this.#open.delete(number);
    }
  }

  get settled(): number {
    let settled = this.last;
    for (const [number, until] of this.#unsure)
      if (until < performance.now()) this.#unsure.delete(number);
      else settled = Math.min(settled, number - 1);
    const [open] = this.#open;
    return open === undefined ? settled : Math.min(settled, open - 1);
  }
}

/**
 * Numbers of arrivals and ends, each used once. Up to `settled` every write with a number has been answered, so that
 * whoever counts up to there misses none.
 */
export class Ordinals {
  readonly #unsureMs: number;
  #last = 0;
  /** Under way, in rising order. */
  readonly #open = new Set<number>();
  /** Without an answer: they may still come through for a while. Number to the time at which they cannot any more. */
  readonly #unsure = new Map<number, number>();

  constructor(unsureMs: number) {
    this.#unsureMs = unsureMs;
  }

  take(): number {
    this.#last += 1;
    this.#open.add(this.#last);
    return this.#last;
  }

  settle(number: number): void {
    this.#open.delete(number);
  }

  /** The outcome is unknown. */
  lose(number: number): void {
    this.#open.delete(number);
    this.#unsure.set(number, performance.now() + this.#unsureMs);
  }

  get settled(): number {
    let settled = this.#last;
    for (const [number, until] of this.#unsure)
      if (until < performance.now()) this.#unsure.delete(number);
      else settled = Math.min(settled, number - 1);
    const [open] = this.#open;
    return open === undefined ? settled : Math.min(settled, open - 1);
  }

  get last(): number {
    return this.#last;
  }

  /** No number up to here is given again. */
  reach(number: number): void {
    this.#last = Math.max(this.#last, number);
  }
}

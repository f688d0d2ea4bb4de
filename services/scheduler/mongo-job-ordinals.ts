/**
 * Numbers of arrivals and ends, each used once. Up to `settled` every write with a number has been answered, so that
 * whoever counts up to there misses none.
 */
export class Ordinals {
  readonly #newestAbove: (number: number) => Promise<number>;
  readonly #unsureMs: number;
  #last = 0;
  /** Under way, in rising order. */
  readonly #open = new Set<number>();
  /** Without an answer: they may still come through for a while. Number to the time at which they cannot any more. */
  readonly #unsure = new Map<number, number>();

  /** @param newestAbove the greatest stored number above this one, else this one. */
  constructor(newestAbove: (number: number) => Promise<number>, unsureMs: number) {
    this.#newestAbove = newestAbove;
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

  /** The newest number, those of other processes included. */
  async newest(atLeast = 0): Promise<number> {
    this.#last = Math.max(this.#last, atLeast);
    const stored = await this.#newestAbove(this.#last);
    this.#last = Math.max(this.#last, stored);
    return this.#last;
  }
}

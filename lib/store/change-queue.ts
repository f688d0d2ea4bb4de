/** Lets changes of one record go one after the other within this process; different records do not wait. */
export class ChangeQueue {
  /** The last change under way of each record. */
  readonly #last = new Map<string, Promise<unknown>>();

  run<T>(id: string, change: () => Promise<T>): Promise<T> {
    const before = this.#last.get(id) ?? Promise.resolve();
    const mine = before.then(change, change);
    this.#last.set(id, mine);
    const forget = () => {
      if (this.#last.get(id) === mine) this.#last.delete(id);
    };
    mine.then(forget, forget);
    return mine;
  }

  /** Resolves when the changes under way have ended, well or not. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#last.values());
  }
}

import { AppError } from "../../../lib/errors.ts";
import type { BridgeAnswer, Question } from "./bridge-wire.ts";

interface Open {
  question: Question;
  promise: Promise<BridgeAnswer>;
  resolve(answer: BridgeAnswer): void;
  reject(error: Error): void;
}

/** Questions that wait to be fetched and answered, each known by its id: asking again is the same question. */
export class QuestionBox {
  readonly #open = new Map<string, Open>();
  readonly #waiting = new Set<() => void>();
  #asked = 0;
  readonly #openMax: number;

  constructor(openMax: number) {
    this.#openMax = openMax;
  }

  /** Resolves with the answer, however long that takes. @throws AppError UNAVAILABLE; what the answer says. */
  ask(question: Question): Promise<BridgeAnswer> {
    const same = this.#open.get(question.id);
    if (same) return same.promise;
    if (this.#open.size >= this.#openMax)
      return Promise.reject(new AppError("UNAVAILABLE", { reason: "too many open questions" }));
    const { promise, resolve, reject } = Promise.withResolvers<BridgeAnswer>();
    this.#open.set(question.id, { question, promise, resolve, reject });
    this.#asked += 1;
    for (const tell of [...this.#waiting]) tell();
    return promise;
  }

  /** Questions asked so far. */
  get asked(): number {
    return this.#asked;
  }

  /**
   * Calls `tell` with each next question, and at once when there was one that the other side has not seen.
   * @returns Ends that.
   */
  listen(seen: number, tell: () => void): () => void {
    this.#waiting.add(tell);
    if (seen !== this.#asked) tell();
    return () => this.#waiting.delete(tell);
  }

  /** An answer that came twice, or to a question of an earlier run, is none. */
  answer(answer: BridgeAnswer): void {
    const open = this.#open.get(answer.id);
    if (!open) return;
    this.#open.delete(answer.id);
    if (answer.failed === undefined) open.resolve(answer);
    else open.reject(new AppError("UNAVAILABLE", { reason: answer.failed }));
  }

  list(): Question[] {
    return [...this.#open.values()].map(({ question }) => question);
  }
}

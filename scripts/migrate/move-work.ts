import { moveLimits } from "./limits.ts";

/** What moving and comparing is given beside source and target. */
export interface MoveWork {
  /** Stops the work between two steps: a leader has taken over in the target, or the operator wants it. */
  signal: AbortSignal;
  /** Tells how far it is. */
  show(what: string, done: number, total: number, bytes?: number): void;
}

/** Cuts what comes into lists of a bounded length. */
export async function* batches<T>(
  items: AsyncIterable<T> | Iterable<T>,
  max: number,
): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < max) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** Asks of each, a bounded number at a time; answers in order. */
export async function askEach<T, R>(
  items: readonly T[],
  ask: (item: T) => Promise<R>,
): Promise<R[]> {
  const answers: R[] = [];
  for (let at = 0; at < items.length; at += moveLimits.questionsAtOnce)
    answers.push(...(await Promise.all(items.slice(at, at + moveLimits.questionsAtOnce).map(ask))));
  return answers;
}

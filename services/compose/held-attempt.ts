import type { Ms, StartOrder } from "../scheduler/job.types.ts";
import type { AttemptKey, JournalEntry } from "./node-ports.ts";

export type StopCause = "fenced" | "lease" | "drain";

/**
 * accepting: on its way into the journal; waiting: for a slot that is being cleared; settling: the work has
 * ended and the scheduler or the storage has yet to hear of it.
 */
type Phase = "accepting" | "waiting" | "executing" | "settling";

export interface HeldAttempt {
  order: StartOrder;
  phase: Phase;
  leaseUntil: Ms;
  progress: number;
  stage?: string;
  abort: AbortController;
  stopped?: StopCause;
  /** Resolves when the order is in the journal. */
  journaled: Promise<unknown>;
}

export const keyText = ({ jobId, attempt }: AttemptKey) => `${jobId}/${attempt}`;
export const keyOf = ({ jobId, attempt }: AttemptKey): AttemptKey => ({ jobId, attempt });

/** Under a lease that can still run out. */
export const isAlive = (attempt: HeldAttempt) => attempt.phase !== "settling" && !attempt.stopped;

/** Entries that were taken by the same run and ended the same way: they are handed back together. */
export function groupByHolder(entries: readonly JournalEntry[]): JournalEntry[][] {
  const groups = new Map<string, JournalEntry[]>();
  for (const entry of entries) {
    const holder = `${entry.node} ${entry.boot} ${entry.released}`;
    groups.set(holder, [...(groups.get(holder) ?? []), entry]);
  }
  return [...groups.values()];
}

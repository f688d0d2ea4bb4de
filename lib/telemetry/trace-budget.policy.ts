/** How many traces may still be begun, and when that was last worked out. */
export interface TraceBudget {
  left: number;
  at: number;
}

/**
 * A bucket of traces that fills with time. Every trace that is recorded takes one, so that neither load nor a client
 * that marks all its requests as sampled can make recording cost more than this.
 * @param nowMs of a clock that never jumps.
 * @returns whether one may be begun now; the budget is changed in place, since this runs for each request.
 */
export function takeTrace(
  budget: TraceBudget,
  nowMs: number,
  { perSecond, atOnce }: { perSecond: number; atOnce: number },
): boolean {
  const filled = budget.left + (Math.max(0, nowMs - budget.at) * perSecond) / 1000;
  budget.left = Math.min(atOnce, filled);
  budget.at = nowMs;
  if (budget.left < 1) return false;
  budget.left -= 1;
  return true;
}

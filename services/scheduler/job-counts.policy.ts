import type { Effect } from "./job.messages.ts";
import type { Job, Ms } from "./job.types.ts";

/** How an attempt ended. */
export type AttemptEnd =
  | "success"
  | "error"
  | "timeout"
  | "stalled"
  | "cancelled"
  | "lease-expired"
  | "node-restarted"
  /** Nothing went wrong: the node drains, or did not take it. */
  | "returned";

/** What one step of a job adds to the numbers. */
export type JobCount =
  | { type: "started"; waitedS: number }
  | { type: "attempt"; end: AttemptEnd; ranS: number }
  | { type: "nodeLost" }
  | { type: "ended"; as: "success" | "failed" | "cancelled" | "parked" }
  /** An operator has started an ended job anew. */
  | { type: "again" };

type Running = Job & { state: "running" };

function endOf(before: Running, after: Job, effects: readonly Effect[]): AttemptEnd {
  if (after.state === "success") return "success";
  if (after.state === "cancelled") return "cancelled";
  const halted = effects.find((effect) => effect.type === "halt")?.reason;
  if (halted === "timeout" || halted === "stalled") return halted;
  if (halted === "superseded") return "lease-expired";
  if (after.history.nodesLost > before.history.nodesLost) return "node-restarted";
  return after.history.errors > before.history.errors ? "error" : "returned";
}

const seconds = (ms: number) => Math.max(0, ms) / 1000;
const isOver = ({ state }: Job) => state !== "pending" && state !== "running";

/** Since when it could have been started. */
const waitsSince = (before: Job | undefined, after: Job): Ms =>
  before?.state === "pending" ? before.readyAt : after.spec.dueAt;

/**
 * Numbers of one transition. A job that is only taken over from an earlier leader adds nothing: it has no effects and
 * nothing before it.
 */
export function countsOf(
  before: Job | undefined,
  after: Job,
  effects: readonly Effect[],
  now: Ms,
): JobCount[] {
  const counts: JobCount[] = [];
  const isSameAttempt =
    after.state === "running" && after.history.attempt === before?.history.attempt;
  if (before?.state === "running" && !isSameAttempt)
    counts.push({
      type: "attempt",
      end: endOf(before, after, effects),
      ranS: seconds(now - before.attemptAt),
    });
  if (before && after.history.nodesLost > before.history.nodesLost)
    counts.push({ type: "nodeLost" });
  if (effects.some(({ type }) => type === "begin") && after.state === "running")
    counts.push({ type: "started", waitedS: seconds(after.attemptAt - waitsSince(before, after)) });
  if (before && !isOver(before) && isOver(after)) {
    const isParked = after.state === "failed" && after.error.type === "JOB_PARKED";
    const as = isParked ? "parked" : (after.state as "success" | "failed" | "cancelled");
    counts.push({ type: "ended", as });
  }
  if (effects.length > 0 && after.state === "pending" && (!before || isOver(before)))
    counts.push({ type: "again" });
  return counts;
}

/** Band of priorities that a job is counted in: one line for each single priority would be too many. */
export function bandOf(priority: number): string {
  const first = Math.floor((priority - 1) / 20) * 20 + 1;
  return `${first}-${first + 19}`;
}

import type { LeaseExpired, Stall, Timeout } from "./job.messages.ts";
import type { Job, Ms } from "./job.types.ts";

type RunningJob = Job & { state: "running" };

/** When a running job has made no progress for too long. */
export const stallsAt = (job: RunningJob): Ms =>
  (job.history.progressAt ?? job.attemptAt) + job.spec.stallMs;

/** When the job next needs a look: the earliest end of its lease and its time limits. */
export const deadlineOf = (job: RunningJob): Ms =>
  Math.min(job.leaseUntil, job.attemptAt + job.spec.timeoutMs, stallsAt(job));

/** The message that is due for a running job, if any. Limits of the job itself come before the lease. */
export function dueMessage(
  job: RunningJob,
  now: Ms,
  random: number,
  lease: { countsAsLoss: boolean; nodesLostMax: number },
): Timeout | Stall | LeaseExpired | undefined {
  const { attempt } = job.history;
  if (now >= job.attemptAt + job.spec.timeoutMs) return { type: "timeout", attempt, random };
  if (now >= job.leaseUntil) return { type: "leaseExpired", attempt, ...lease };
  if (now >= stallsAt(job)) return { type: "stall", attempt, random };
  return undefined;
}

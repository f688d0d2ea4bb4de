import type {
  Accepted,
  AttemptRef,
  Cancel,
  Claim,
  Complete,
  Effect,
  Fail,
  FenceReason,
  HandBack,
  IgnoredReason,
  JobMessage,
  LeaseExpired,
  NodeGone,
  Refused,
  Renew,
  Stall,
  Step,
  Timeout,
} from "./job.messages.ts";
import type {
  Cancelled,
  Failed,
  Job,
  JobError,
  JobHistory,
  JobSpec,
  JobState,
  Ms,
  Pending,
  Running,
  Succeeded,
} from "./job.types.ts";
import { stallsAt } from "./job-deadline.policy.ts";

type In<S> = { spec: JobSpec; history: JobHistory } & S;

const ignored = (reason: IgnoredReason): Step => ({ outcome: "ignored", reason });

/** A stored change: the version, guard of the compare-and-set, rises with it. */
function changed(
  job: Job,
  state: Pending | Running | Succeeded | Failed | Cancelled,
  history: Partial<JobHistory>,
  effects: Effect[],
): Step {
  const next = {
    spec: job.spec,
    history: { ...job.history, ...history, version: job.history.version + 1 },
    ...state,
  } as Job;
  return { outcome: "changed", job: next, effects, durable: true };
}

const log = (level: "info" | "warn" | "error", text: string): Effect => ({
  type: "log",
  level,
  text,
});
const halt = (job: In<Running>, reason: FenceReason): Effect => ({
  type: "halt",
  node: job.node,
  boot: job.boot,
  attempt: job.history.attempt,
  reason,
});

const isCurrent = (job: Job, attempt: number): job is In<Running> =>
  job.state === "running" && job.history.attempt === attempt;
const speaksForCurrent = (job: Job, ref: AttemptRef): job is In<Running> =>
  isCurrent(job, ref.attempt) && job.node === ref.node && job.boot === ref.boot;

/** A job that was just accepted. */
export function created(spec: JobSpec): In<Pending> {
  return {
    spec,
    history: { attempt: 0, errors: 0, nodesLost: 0, progress: 0, version: 1 },
    state: "pending",
    readyAt: spec.dueAt,
  };
}

/** Gives the job to a node. The claim is stored before the node hears of it (design, section 4, rule 2). */
export function claim(job: Job, msg: Claim, now: Ms): Step {
  if (job.state !== "pending") return ignored("not-pending");
  if (job.readyAt > now) return ignored("not-ready");
  const attempt = job.history.attempt + 1;
  return changed(
    job,
    {
      state: "running",
      node: msg.node,
      boot: msg.boot,
      leaseUntil: now + msg.leaseMs,
      attemptAt: now,
      accepted: false,
    },
    {
      attempt,
      lastNode: msg.node,
      progress: 0,
      progressAt: now,
      stage: undefined,
      startedAt: job.history.startedAt ?? now,
    },
    [
      ...(msg.why ? [log("info", `Attempt ${attempt} goes to ${msg.node}: ${msg.why}`)] : []),
      { type: "begin", node: msg.node, boot: msg.boot, attempt },
    ],
  );
}

/** The node has the attempt in its journal. Kept in memory only: the next renewal stores it. */
export function accepted(job: Job, msg: Accepted): Step {
  if (!isCurrent(job, msg.attempt)) return ignored("not-current");
  if (job.accepted) return ignored("already-done");
  return { outcome: "changed", job: { ...job, accepted: true }, effects: [], durable: false };
}

/** The node did not take the attempt: it costs the job nothing but an attempt number. */
export function refused(job: Job, msg: Refused, now: Ms): Step {
  if (!isCurrent(job, msg.attempt)) return ignored("not-current");
  if (job.accepted) return ignored("already-done");
  return changed(job, { state: "pending", readyAt: now }, {}, [
    log("warn", `${job.node} did not take attempt ${msg.attempt}: ${msg.reason}`),
  ]);
}

/** A heartbeat that names the attempt: the lease goes on and the progress is noted. */
export function renew(job: Job, msg: Renew, now: Ms): Step {
  if (!speaksForCurrent(job, msg)) return ignored("not-current");
  const progress = Math.max(job.history.progress, Math.min(1, Math.max(0, msg.progress)));
  const moved = progress > job.history.progress || msg.stage !== job.history.stage;
  return changed(
    job,
    {
      state: "running",
      node: job.node,
      boot: job.boot,
      leaseUntil: Math.max(job.leaseUntil, now + msg.leaseMs),
      attemptAt: job.attemptAt,
      accepted: true,
    },
    { progress, stage: msg.stage, progressAt: moved ? now : job.history.progressAt },
    [],
  );
}

/** Only the current attempt may win; any other must delete its output. */
export function complete(job: Job, msg: Complete, now: Ms): Step {
  if (
    job.state === "success" &&
    job.history.attempt === msg.attempt &&
    job.result.hash === msg.result.hash
  )
    return ignored("already-done");
  if (!speaksForCurrent(job, msg)) return ignored("not-current");
  return changed(
    job,
    { state: "success", endedAt: now, result: msg.result },
    { progress: 1, progressAt: now },
    [{ type: "settled" }],
  );
}

/** Delay before the next attempt: doubles with each error, half of it random, so that retries spread. */
export function backoffDelayMs(spec: JobSpec, errors: number, random: number): number {
  const full = Math.min(spec.backoffMsMax, spec.backoffMs * 2 ** Math.min(30, errors - 1));
  return Math.round(full / 2 + (full / 2) * random);
}

/** An attempt ended with an error of the job itself. */
function afterError(
  job: In<Running>,
  error: JobError,
  retryable: boolean,
  random: number,
  now: Ms,
  effects: Effect[],
): Step {
  const errors = job.history.errors + 1;
  const note = `Attempt ${job.history.attempt} on ${job.node} failed: ${error.message}`;
  if (!retryable || errors >= job.spec.attemptsMax) {
    return changed(job, { state: "failed", endedAt: now, error }, { errors, lastError: error }, [
      ...effects,
      log("error", note),
      { type: "settled" },
    ]);
  }
  const delayMs = backoffDelayMs(job.spec, errors, random);
  return changed(job, { state: "pending", readyAt: now + delayMs }, { errors, lastError: error }, [
    ...effects,
    log("warn", `${note}; next attempt in ${delayMs} ms`),
  ]);
}

export function fail(job: Job, msg: Fail, now: Ms): Step {
  if (!speaksForCurrent(job, msg)) return ignored("not-current");
  return afterError(job, msg.error, msg.retryable, msg.random, now, []);
}

/** The attempt is gone through no fault of the job: back to the queue with priority and age kept, or parked. */
function afterLoss(
  job: In<Running>,
  counts: boolean,
  nodesLostMax: number,
  cause: string,
  now: Ms,
  effects: Effect[],
): Step {
  const nodesLost = job.history.nodesLost + (counts ? 1 : 0);
  const note = `Attempt ${job.history.attempt} on ${job.node} was lost: ${cause}`;
  if (nodesLost >= nodesLostMax && counts) {
    const error: JobError = {
      type: "JOB_PARKED",
      message: `Parked: ${nodesLost} nodes were lost while they ran this job`,
      data: { nodes: nodesLost },
    };
    return changed(job, { state: "failed", endedAt: now, error }, { nodesLost, lastError: error }, [
      ...effects,
      log("error", `${note}; parked until an operator retries it`),
      { type: "settled" },
    ]);
  }
  return changed(job, { state: "pending", readyAt: now }, { nodesLost }, [
    ...effects,
    log("warn", `${note}; it waits for another node`),
  ]);
}

/**
 * A node gives the attempt up: when it drains that costs nothing, after a restart it counts as a lost node.
 * Neither counts as an error. The boot is not compared: an attempt number belongs to one claim only.
 */
export function handBack(job: Job, msg: HandBack, now: Ms): Step {
  if (!isCurrent(job, msg.attempt) || job.node !== msg.node) return ignored("not-current");
  if (msg.cause === "restart")
    return afterLoss(job, true, msg.nodesLostMax, "the node restarted", now, []);
  return changed(job, { state: "pending", readyAt: now }, {}, [
    log("info", `${job.node} drains and handed attempt ${msg.attempt} back`),
  ]);
}

export function leaseExpired(job: Job, msg: LeaseExpired, now: Ms): Step {
  if (!isCurrent(job, msg.attempt)) return ignored("not-current");
  if (now < job.leaseUntil) return ignored("not-due");
  return afterLoss(job, msg.countsAsLoss, msg.nodesLostMax, "its lease ran out", now, [
    halt(job, "superseded"),
  ]);
}

export function nodeGone(job: Job, msg: NodeGone, now: Ms): Step {
  // A late word of an earlier run says nothing about a later one.
  if (job.state !== "running" || job.node !== msg.node || job.boot >= msg.boot)
    return ignored("not-current");
  return afterLoss(job, true, msg.nodesLostMax, "the node restarted", now, []);
}

/** Durable at once and final for everything but an operator's retry. */
export function cancel(job: Job, msg: Cancel, now: Ms): Step {
  switch (job.state) {
    case "cancelled":
      return ignored("already-done");
    case "success":
    case "failed":
      return ignored("already-ended");
    case "pending":
      return changed(job, { state: "cancelled", endedAt: now, reason: msg.reason }, {}, [
        log("info", cancelNote(msg.reason)),
        { type: "settled" },
      ]);
    case "running":
      return changed(
        job,
        {
          state: "cancelled",
          endedAt: now,
          reason: msg.reason,
          stopping: { node: job.node, boot: job.boot },
        },
        {},
        [halt(job, "cancelled"), log("info", cancelNote(msg.reason)), { type: "settled" }],
      );
    default:
      return unreachable(job);
  }
}
const cancelNote = (reason: string) => (reason ? `Cancelled: ${reason}` : "Cancelled");

/** An operator starts an ended job anew: errors and lost nodes count from zero, attempts go on rising. */
export function retry(job: Job, now: Ms): Step {
  if (job.state === "pending" || job.state === "running") return ignored("not-ended");
  if (job.state === "success") return ignored("already-ended");
  return changed(
    job,
    { state: "pending", readyAt: now },
    { errors: 0, nodesLost: 0, progress: 0, stage: undefined },
    [log("info", "An operator starts it again")],
  );
}

export function timeout(job: Job, msg: Timeout, now: Ms): Step {
  if (!isCurrent(job, msg.attempt)) return ignored("not-current");
  if (now < job.attemptAt + job.spec.timeoutMs) return ignored("not-due");
  const seconds = job.spec.timeoutMs / 1000;
  const error = {
    type: "JOB_TIMEOUT",
    message: `The job ran longer than ${seconds} s`,
    data: { seconds },
  };
  return afterError(job, error, true, msg.random, now, [halt(job, "timeout")]);
}

export function stall(job: Job, msg: Stall, now: Ms): Step {
  if (!isCurrent(job, msg.attempt)) return ignored("not-current");
  if (now < stallsAt(job)) return ignored("not-due");
  const seconds = job.spec.stallMs / 1000;
  const error = {
    type: "JOB_STALLED",
    message: `The job made no progress for ${seconds} s`,
    data: { seconds },
  };
  return afterError(job, error, true, msg.random, now, [halt(job, "stalled")]);
}

/** What a node hears that still holds an attempt which is not the current one. */
export function fenceReason(job: Job | undefined, attempt: number): FenceReason {
  if (!job) return "unknown";
  if (job.state === "cancelled") return "cancelled";
  if (job.history.attempt === attempt && job.state !== "running") {
    if (job.history.lastError?.type === "JOB_TIMEOUT") return "timeout";
    if (job.history.lastError?.type === "JOB_STALLED") return "stalled";
  }
  return "superseded";
}

/** The state machine of a job: what one message does to it. Pure; `now` and every random number are given. */
export function step(job: Job, message: JobMessage, now: Ms): Step {
  switch (message.type) {
    case "claim":
      return claim(job, message, now);
    case "accepted":
      return accepted(job, message);
    case "refused":
      return refused(job, message, now);
    case "renew":
      return renew(job, message, now);
    case "complete":
      return complete(job, message, now);
    case "fail":
      return fail(job, message, now);
    case "handBack":
      return handBack(job, message, now);
    case "leaseExpired":
      return leaseExpired(job, message, now);
    case "nodeGone":
      return nodeGone(job, message, now);
    case "cancel":
      return cancel(job, message, now);
    case "retry":
      return retry(job, now);
    case "timeout":
      return timeout(job, message, now);
    case "stall":
      return stall(job, message, now);
    default:
      return unreachable(message);
  }
}

function unreachable(value: never): never {
  throw new Error(`not a job state or message: ${JSON.stringify(value)}`);
}

export const isEnded = (state: JobState): boolean => state !== "pending" && state !== "running";

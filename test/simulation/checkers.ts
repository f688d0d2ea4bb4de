import { nodeLimits } from "../../services/compose/config.ts";
import type { AttemptKey } from "../../services/compose/node-ports.ts";
import { isEnded } from "../../services/scheduler/job.step.ts";
import type { Job, StartOrder } from "../../services/scheduler/job.types.ts";
import type { World } from "./world.ts";

/** The seven invariants of the scheduler (design, section 4). */
export const invariants = {
  "no job lost": "an accepted job exists, ends, and its callback is made",
  "one result": "one attempt is told that it won; its output is kept, every other is deleted",
  attempts:
    "attempts only rise, each new one has a crash, a lost node, an error or a retry for cause",
  leases: "no lease outlives its expiry plus one sweep, and no process its lease",
  cancel: "a cancelled job stays so unless somebody asks for a retry",
  "no starvation": "a job that could run is started within its bound",
  "one leader": "while one leads, nobody else counts on a lease, answers or changes an active job",
} as const;
export type Invariant = keyof typeof invariants;

export interface Violation {
  invariant: Invariant;
  atMs: number;
  message: string;
}

interface NodeFacts {
  /** The run that is up, or was last. */
  boot: string;
  isUp: boolean;
  startedAt: number;
  /** When a drain last began or ended. */
  drainedAt: number;
  frozenUntil: number;
  lastContactAt: number;
  /** When a report last arrived that was long on its way: what it lists may not be so any more. */
  lateBeatAt: number;
  /** End of the latest time without contact that was long enough to cost a lease. */
  gapEndedAt: number;
}

export interface CheckerLimits {
  leaseMs: number;
  sweepMs: number;
}

const keyOf = ({ jobId, attempt }: AttemptKey) => `${jobId}/${attempt}`;
/** Longest time between an abort and the end of the simulated process, with some slack. */
const killMsMax = 2_000;
/** A report that was longer on its way than this may mislead the leader about free slots. */
const lateMsMin = 500;
/** Writes to the simulated disk that queue up. */
const writeMsMax = 250;

/** Sees everything, tells nothing to the simulated system, and remembers the first rule that was broken. */
export class Checkers {
  violation: Violation | undefined;
  /** Checks made, by invariant. */
  readonly made: Record<Invariant, number> = {
    "no job lost": 0,
    "one result": 0,
    attempts: 0,
    leases: 0,
    cancel: 0,
    "no starvation": 0,
    "one leader": 0,
  };
  readonly #world: World;
  readonly #limits: CheckerLimits;
  readonly #epoch: number;
  readonly #nodes = new Map<string, NodeFacts>();
  readonly #latest = new Map<string, Job>();
  readonly #attemptMax = new Map<string, number>();
  readonly #retriesAsked = new Map<string, number>();
  readonly #revivals = new Map<string, number>();
  readonly #winners = new Map<string, number>();
  readonly #settled = new Map<string, Set<string>>();
  /** When the order of an attempt first reached its node. */
  readonly #begun = new Map<string, number>();
  readonly #renewedAt = new Map<string, number>();
  /** Attempts whose work went wrong by itself. */
  readonly #failedByPlan: (job: Job) => boolean;
  /** Whether this run of a scheduler counts on its lease now. */
  readonly #holdsLease: (run: string) => boolean;
  readonly #fencesInserts: boolean;
  #holder = "";
  /** Jobs that were stored late, by their writer, until a leader takes them over. */
  readonly #strays = new Map<string, string>();

  constructor(
    world: World,
    epoch: number,
    limits: CheckerLimits,
    facts: {
      failedByPlan: (job: Job) => boolean;
      holdsLease: (run: string) => boolean;
      fencesInserts: boolean;
    },
  ) {
    this.#world = world;
    this.#epoch = epoch;
    this.#limits = limits;
    this.#failedByPlan = facts.failedByPlan;
    this.#holdsLease = facts.holdsLease;
    this.#fencesInserts = facts.fencesInserts;
  }

  #check(invariant: Invariant, holds: boolean, message: () => string): void {
    this.made[invariant] += 1;
    if (holds || this.violation) return;
    this.violation = { invariant, atMs: this.#world.now, message: message() };
    this.#world.note(() => `VIOLATION of "${invariant}": ${this.violation?.message}`);
  }

  // --- What nodes do ---

  nodeStarted(name: string, boot: string): void {
    const now = this.#world.now;
    this.#nodes.set(name, {
      boot,
      isUp: true,
      startedAt: now,
      drainedAt: this.#nodes.get(name)?.drainedAt ?? Number.NEGATIVE_INFINITY,
      frozenUntil: Number.NEGATIVE_INFINITY,
      lastContactAt: now,
      lateBeatAt: Number.NEGATIVE_INFINITY,
      gapEndedAt: Number.NEGATIVE_INFINITY,
    });
  }
  nodeCrashed(name: string): void {
    const node = this.#nodes.get(name);
    if (node) node.isUp = false;
  }
  nodeDrained(name: string): void {
    const node = this.#nodes.get(name);
    if (node) node.drainedAt = this.#world.now;
  }
  nodeFrozen(name: string, until: number): void {
    const node = this.#nodes.get(name);
    if (node) node.frozenUntil = until;
  }
  /** A node has heard the answer to a heartbeat. */
  contact(name: string, renewed: readonly AttemptKey[]): void {
    const node = this.#nodes.get(name);
    if (!node) return;
    const now = this.#world.now;
    if (now - node.lastContactAt >= this.#gapMs) node.gapEndedAt = now;
    node.lastContactAt = now;
    for (const key of renewed) this.#renewedAt.set(keyOf(key), now);
  }
  /** A report of a node has reached the leader. */
  beat(name: string, sentAt: number): void {
    const node = this.#nodes.get(name);
    if (node && this.#world.now - sentAt > lateMsMin) node.lateBeatAt = this.#world.now;
  }
  /** The order has reached its node. */
  begun(key: AttemptKey): void {
    if (!this.#begun.has(keyOf(key))) this.#begun.set(keyOf(key), this.#world.now);
  }
  executionStarted(_name: string, order: StartOrder): void {
    this.#renewedAt.set(keyOf(order), this.#world.now);
  }
  discarded(key: AttemptKey): void {
    const job = this.#latest.get(key.jobId);
    this.#check(
      "one result",
      !(job?.state === "success" && job.history.attempt === key.attempt),
      () => `the committed output of ${keyOf(key)} was deleted`,
    );
  }

  get #gapMs(): number {
    return this.#limits.leaseMs - nodeLimits.heartbeatMs;
  }

  // --- What is stored ---

  /** Somebody has taken the leadership over. */
  tookOver(term: number, holder: string): void {
    const before = this.#holder;
    this.#world.note(() => `stored: ${holder} leads, term ${term}`);
    this.#check(
      "one leader",
      !this.#holdsLease(before),
      () => `${holder} took over while ${before} still counted on its lease`,
    );
    this.#holder = holder;
    this.#strays.clear();
  }

  /** A change that was stored must be the leader's, or be one of the few that a store may take late. */
  #changedBy(before: Job | undefined, id: string, writer: string): void {
    const isLate = writer !== this.#holder;
    const isStray =
      !this.#fencesInserts &&
      (before === undefined || isEnded(before.state) || this.#strays.get(id) === writer);
    this.#check(
      "one leader",
      !isLate || isStray,
      () => `job ${id} was changed by ${writer} while ${this.#holder} led`,
    );
    if (isLate) this.#strays.set(id, writer);
    else this.#strays.delete(id);
  }

  committed(before: Job | undefined, after: Job, writer: string): void {
    const { id } = after.spec;
    this.#changedBy(before, id, writer);
    this.#world.note(() => `stored: ${describe(after)}`);
    this.#latest.set(id, after);
    const attempt = after.history.attempt;
    const known = this.#attemptMax.get(id) ?? 0;
    const isClaim = after.state === "running" && before?.state !== "running";
    this.#check("attempts", isClaim ? attempt === known + 1 : attempt === known, () =>
      isClaim
        ? `job ${id}: attempt ${attempt} was given out after attempt ${known}`
        : `job ${id}: attempt went from ${known} to ${attempt} without a claim`,
    );
    this.#attemptMax.set(id, Math.max(known, attempt));
    if (!before) return;
    this.#check(
      "one result",
      before.state !== "success",
      () => `job ${id} was changed after its result was committed`,
    );
    if (isEnded(before.state) && !isEnded(after.state)) this.#revived(before, id);
    if (before.state === "running" && after.state !== "success" && after.state !== "cancelled")
      if (after.state !== "running") this.#attemptEnded(before);
  }

  #revived(before: Job, id: string): void {
    const revivals = (this.#revivals.get(id) ?? 0) + 1;
    this.#revivals.set(id, revivals);
    this.#check(
      before.state === "cancelled" ? "cancel" : "attempts",
      revivals <= (this.#retriesAsked.get(id) ?? 0),
      () => `job ${id} came back from ${before.state} although nobody asked for it`,
    );
  }

  /** An attempt has ended without a result: there must be a cause outside the scheduler. */
  #attemptEnded(job: Job & { state: "running" }): void {
    const attemptAt = job.attemptAt - this.#epoch;
    const node = this.#nodes.get(job.node);
    const now = this.#world.now;
    const sinceMs = attemptAt - this.#limits.leaseMs - nodeLimits.heartbeatMs;
    const key = keyOf({ jobId: job.spec.id, attempt: job.history.attempt });
    const wasExecuted = this.#renewedAt.has(key);
    const cause =
      this.#failedByPlan(job) ||
      !node?.isUp ||
      node.boot !== job.boot ||
      node.gapEndedAt >= attemptAt ||
      now - node.lastContactAt >= this.#gapMs ||
      (this.#begun.get(key) ?? now) - attemptAt > nodeLimits.heartbeatMs ||
      Math.max(node.drainedAt, node.frozenUntil) >= (wasExecuted ? attemptAt : sinceMs) ||
      // Refused for want of a slot: an attempt number is lost, nothing else.
      (!wasExecuted && node.lateBeatAt >= sinceMs);
    this.#check(
      "attempts",
      cause,
      () =>
        `attempt ${job.history.attempt} of job ${job.spec.id} on ${job.node} was given up without a crash, a loss of contact or an error`,
    );
  }

  // --- What is told ---

  /** A scheduler has answered out of its memory. */
  remembered(run: string): void {
    this.#check(
      "one leader",
      run === this.#holder,
      () => `${run} told what it remembered while ${this.#holder} led`,
    );
  }
  /** A leader has answered the report of an end. */
  told(key: AttemptKey & { boot: string }, outcome: string): void {
    if (outcome === "fenced") {
      const job = this.#latest.get(key.jobId);
      const isCurrent =
        job?.state === "running" && job.history.attempt === key.attempt && job.boot === key.boot;
      this.#check(
        "one result",
        !isCurrent,
        () => `the current attempt ${keyOf(key)} was told that it was superseded`,
      );
    }
    if (outcome !== "committed") return;
    const winner = this.#winners.get(key.jobId) ?? key.attempt;
    this.#winners.set(key.jobId, winner);
    this.#check(
      "one result",
      winner === key.attempt,
      () => `job ${key.jobId}: attempts ${winner} and ${key.attempt} were both told that they won`,
    );
  }
  retryAsked(id: string): void {
    this.#retriesAsked.set(id, (this.#retriesAsked.get(id) ?? 0) + 1);
  }
  /** A client has heard that its job is cancelled. */
  cancelHeard(id: string): void {
    const job = this.#latest.get(id);
    this.#check(
      "cancel",
      job?.state === "cancelled" || (this.#revivals.get(id) ?? 0) > 0,
      () => `job ${id} is ${job?.state ?? "unknown"} although its cancellation was confirmed`,
    );
  }
  /** A callback was made. */
  callback(id: string, state: string): void {
    const states = this.#settled.get(id) ?? new Set();
    this.#settled.set(id, states.add(state));
  }

  // --- From time to time ---

  /**
   * `trustedSince`: since when the leader and its disk have been well. A leader gives what it takes over time to report.
   */
  leases(running: readonly Job[], leadsSince: number, trustedSince: number): void {
    const { sweepMs } = this.#limits;
    const now = this.#world.now;
    for (const job of running) {
      if (job.state !== "running") continue;
      const dueAt = Math.max(
        job.leaseUntil - this.#epoch,
        leadsSince + 2 * nodeLimits.heartbeatMs,
        trustedSince,
      );
      this.#check(
        "leases",
        now <= dueAt + sweepMs + writeMsMax,
        () =>
          `the lease of attempt ${job.history.attempt} of job ${job.spec.id} ended ${Math.round(now - dueAt)} ms ago and was not swept`,
      );
    }
  }

  processes(name: string, boot: string, running: readonly { order: StartOrder; boot: string }[]) {
    const node = this.#nodes.get(name);
    const now = this.#world.now;
    if (!node?.isUp || now <= node.frozenUntil + killMsMax) return;
    for (const { order, boot: startedBy } of running) {
      const key = keyOf(order);
      const since = this.#renewedAt.get(key) ?? now;
      this.#check(
        "leases",
        startedBy !== boot || now - since <= this.#limits.leaseMs + killMsMax,
        () => `${name} still runs ${key}, ${Math.round(now - since)} ms after its last renewal`,
      );
      this.#check(
        "leases",
        startedBy === boot || now - node.startedAt <= killMsMax,
        () => `${name} has been up for ${now - node.startedAt} ms beside an orphan of ${key}`,
      );
    }
  }

  started(id: string, byMs: number): void {
    const job = this.#latest.get(id);
    this.#check(
      "no starvation",
      this.#world.now <= byMs || (job !== undefined && job.history.attempt > 0),
      () => `job ${id} should have started by ${byMs} ms`,
    );
  }

  // --- At the end ---

  /** Everything was repaired and had its time. */
  atRest(accepted: ReadonlyMap<string, Job | undefined>, objects: ReadonlySet<string>): void {
    const kept = new Set<string>();
    for (const [id, job] of accepted) {
      this.#check("no job lost", job !== undefined, () => `accepted job ${id} is gone`);
      if (!job) continue;
      this.#check("no starvation", job.state !== "pending", () => `job ${id} was never run`);
      this.#check("no job lost", isEnded(job.state), () => `job ${id} is still ${job.state}`);
      this.#check(
        "no job lost",
        this.#settled.get(id)?.has(job.state) ?? false,
        () => `the callback of job ${id}, ${job.state}, was not made`,
      );
      const winner = this.#winners.get(id);
      if (winner !== undefined)
        this.#check(
          "one result",
          job.state === "success" && job.history.attempt === winner,
          () => `attempt ${winner} of job ${id} was told that it won, but the job is ${job.state}`,
        );
      if (job.state !== "success") continue;
      const key = keyOf({ jobId: id, attempt: job.history.attempt });
      kept.add(key);
      this.#check("one result", objects.has(key), () => `the output of ${key} is not there`);
    }
    for (const key of objects)
      this.#check("one result", kept.has(key), () => `the output of ${key} was left behind`);
  }

  sameJob(key: string, ids: ReadonlySet<string>): void {
    this.#check(
      "no job lost",
      ids.size <= 1,
      () => `one idempotency key, ${key}, led to jobs ${[...ids].join(" and ")}`,
    );
  }
}

function describe(job: Job): string {
  const where =
    job.state === "running"
      ? ` on ${job.boot} until ${((job.leaseUntil % 1e9) / 1000).toFixed(3)}`
      : "";
  const { attempt, errors, nodesLost, version } = job.history;
  return `job ${job.spec.payload["job"]} ${job.spec.id.slice(-6)} v${version} ${job.state}${where}, attempt ${attempt}, errors ${errors}, nodes lost ${nodesLost}`;
}

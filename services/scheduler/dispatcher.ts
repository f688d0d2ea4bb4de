import type { SchedulerConfig } from "./config.ts";
import type { Claim, Effect, JobMessage } from "./job.messages.ts";
import { step } from "./job.step.ts";
import type { AttemptReport, Job, Ms, NodeReport } from "./job.types.ts";
import type { Answer, JobActors } from "./job-actors.ts";
import { deadlineOf, dueMessage } from "./job-deadline.policy.ts";
import type { LeaderPorts } from "./leader-ports.ts";
import { NodeRegistry } from "./node-registry.ts";
import { PendingIndex } from "./pending-index.ts";
import { chooseNode, explain, type Needs } from "./placement.policy.ts";

const needsOf = ({ spec, history }: Job): Needs => ({
  kind: spec.kind,
  gpu: spec.requires.gpu === true,
  lastNode: history.lastNode,
});

/**
 * Brings jobs and nodes together: knows what waits, what runs and where there is room; sends orders to nodes and
 * watches over deadlines. Its memory can be rebuilt from the store and the nodes' reports at any time.
 */
export class Dispatcher {
  readonly #ports: LeaderPorts;
  readonly #config: SchedulerConfig;
  readonly #actors: JobActors;
  readonly #pending: PendingIndex;
  readonly #nodes: NodeRegistry;
  readonly #paused = new Set<string>();
  /** Ids of running jobs. */
  readonly #running = new Set<string>();
  /** Claims that are being stored: the slot is reserved meanwhile. */
  readonly #claiming = new Map<string, { node: string; attempt: number }>();
  /** Attempts whose `begin` is under way. */
  readonly #pushing = new Set<string>();
  /** No later than the first deadline of a running job. */
  #deadlineAt: Ms | undefined;
  readonly #openedAt: Ms;
  #sweptAt: Ms;
  #closed = false;

  constructor(ports: LeaderPorts, config: SchedulerConfig, actors: JobActors) {
    this.#ports = ports;
    this.#config = config;
    this.#actors = actors;
    this.#openedAt = ports.now();
    this.#sweptAt = this.#openedAt;
    this.#pending = new PendingIndex(config.agePointMs);
    this.#nodes = new NodeRegistry({
      retiredBootsMax: config.retiredBootsMax,
      freshMs: config.nodeFreshMs,
      forgetMs: config.nodeForgetMs,
    });
  }

  close(): void {
    this.#closed = true;
  }

  /** Nothing leaves a leader that is over, known to it or not. */
  get #mayAct(): boolean {
    return !this.#closed && this.#ports.holdsLease();
  }

  get nodes(): NodeRegistry {
    return this.#nodes;
  }

  /** Jobs that wait for a node, delayed ones included. */
  get pendingCount(): number {
    return this.#pending.size;
  }

  get pausedQueues(): string[] {
    return [...this.#paused].sort();
  }

  setPaused(queue: string, paused: boolean): void {
    if (paused) this.#paused.add(queue);
    else this.#paused.delete(queue);
    this.place();
  }

  /** When a job or a slot needs a look. */
  nextWakeAt(): Ms | undefined {
    const times = [
      this.#pending.nextReadyAt(),
      this.#nodes.nextSweepAt(),
      this.#running.size > 0 ? this.#sweepAt() : undefined,
    ].filter((at) => at !== undefined);
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  /** Ends what is past its lease or its limits, and notices delayed jobs that are due. */
  async tick(now: Ms): Promise<void> {
    this.#nodes.sweep(now);
    this.#pending.promote(now);
    if (now >= this.#sweepAt()) await this.#sweep(now);
  }

  /** What an earlier leader has granted or ended may still be news here. */
  #isNew(now: Ms): boolean {
    return now - this.#openedAt < this.#config.leaseMs;
  }

  #sweepAt(): Ms {
    const due = this.#deadlineAt ?? Number.POSITIVE_INFINITY;
    return Math.max(due, this.#sweptAt + this.#config.sweepMs);
  }

  async #sweep(now: Ms): Promise<void> {
    this.#sweptAt = now;
    this.#deadlineAt = undefined;
    const { nodesLostMax } = this.#config;
    // A lease that ended before a node could have renewed it with this leader tells nothing about the node.
    const countsAsLoss = !this.#isNew(now);
    const due: Promise<Answer>[] = [];
    for (const id of this.#running) {
      const job = this.#actors.get(id);
      if (job?.state !== "running") continue;
      const message = dueMessage(job, now, this.#ports.random(), { countsAsLoss, nodesLostMax });
      if (message) due.push(this.#actors.send(id, message));
      this.#noteDeadline(message ? now : deadlineOf(job));
    }
    await Promise.all(due);
  }

  #noteDeadline(at: Ms): void {
    if (this.#deadlineAt === undefined || at < this.#deadlineAt) this.#deadlineAt = at;
  }

  /** Gives waiting jobs to nodes while there is room. */
  place(): void {
    if (!this.#mayAct) return;
    const now = this.#ports.now();
    this.#pending.promote(now);
    while (this.#pending.readyCount > 0 && this.#nodes.hasFreeSlot()) {
      const job = this.#pending.take(
        now,
        (lane) => !this.#paused.has(lane.queue) && this.#nodes.hasRoom(lane, now),
      );
      if (!job) return;
      const claim = this.#reserve(job, now);
      if (!claim) {
        this.#pending.add(job as Job & { state: "pending" }, now);
        return;
      }
      void this.#claim(job.spec.id, claim);
    }
  }

  /** A new job goes straight to a node when nothing waits before it: then accepting and claiming are one commit. */
  placeNew(job: Job, now: Ms): { job: Job; effects: Effect[] } {
    const mayStart =
      !this.#closed &&
      job.spec.dueAt <= now &&
      this.#pending.readyCount === 0 &&
      !this.#paused.has(job.spec.queue) &&
      this.#nodes.hasFreeSlot();
    const claim = mayStart ? this.#reserve(job, now) : undefined;
    const claimed = claim && (this.#ports.step ?? step)(job, claim, now);
    if (claimed?.outcome === "changed") return claimed;
    return { job, effects: [] };
  }

  /** Chooses a node and takes a slot of it. */
  #reserve(job: Job, now: Ms): Claim | undefined {
    const placement = chooseNode(needsOf(job), this.#nodes.loads(), now, this.#config.nodeFreshMs);
    if (!placement.chosen) return undefined;
    const { node, boot } = placement.chosen;
    const attempt = job.history.attempt + 1;
    this.#claiming.set(job.spec.id, { node, attempt });
    this.#nodes.occupy(node, job.spec.id, attempt);
    const why = explain(placement, this.#config.rejectedShownMax);
    return { type: "claim", node, boot, leaseMs: this.#config.leaseMs, why };
  }

  unclaim(id: string): void {
    const claiming = this.#claiming.get(id);
    if (!claiming) return;
    this.#claiming.delete(id);
    this.#nodes.release(claiming.node, id, claiming.attempt);
  }

  async #claim(id: string, claim: Claim): Promise<void> {
    try {
      const answer = await this.#actors.send(id, claim);
      if (answer.outcome !== "changed") this.unclaim(id);
    } catch (error) {
      // It is unknown whether the claim is stored: the slot stays reserved until the job was read again.
      this.#ports.log("warn", `claim of job ${id}: ${(error as Error).message}`);
      this.#ports.rearm?.();
    }
  }

  /** Keeps the indexes in step with a job that has moved, then carries out what must follow. */
  moved(before: Job | undefined, after: Job, effects: readonly Effect[]): void {
    const { id } = after.spec;
    this.#ports.metrics?.moved(before, after, effects);
    this.unclaim(id);
    if (before?.state === "running") {
      this.#running.delete(id);
      this.#nodes.release(before.node, id, before.history.attempt);
    }
    if (after.state === "pending") this.#pending.add(after, this.#ports.now());
    else this.#pending.remove(id);
    if (after.state === "running") {
      this.#running.add(id);
      this.#nodes.occupy(after.node, id, after.history.attempt);
      this.#noteDeadline(deadlineOf(after));
    }
    if (!this.#mayAct) return;
    for (const effect of effects) {
      if (effect.type === "begin" && after.state === "running") void this.#begin(after);
      if (effect.type === "halt") void this.#halt(id, effect);
    }
    if (after.state !== "running") this.place();
    this.#ports.rearm?.();
  }

  /**
   * A node says that an attempt is over: whatever becomes of the report, its slot is free. The next claim goes into
   * the commit that the report goes into.
   */
  attemptEnded({ node, jobId, attempt }: { node: string; jobId: string; attempt: number }): void {
    this.#nodes.release(node, jobId, attempt);
    this.place();
  }

  async #begin(job: Job & { state: "running" }): Promise<void> {
    const { spec, history, node, boot } = job;
    const { attempt } = history;
    const key = `${spec.id}:${attempt}`;
    if (this.#pushing.has(key)) return;
    this.#pushing.add(key);
    try {
      const { outcome, reason = "" } = await this.#ports.begin(node, {
        jobId: spec.id,
        attempt,
        kind: spec.kind,
        payload: spec.payload,
        owner: spec.owner,
        leaseMs: this.#config.leaseMs,
        boot,
        trace: spec.trace,
      });
      if (this.#closed) return;
      if (outcome !== "refused") await this.#tell(spec.id, { type: "accepted", attempt });
      else {
        this.#nodes.suspect(node);
        await this.#tell(spec.id, { type: "refused", attempt, reason });
      }
    } catch (error) {
      // No answer means unknown: the order is repeated with the node's next report, else the lease decides.
      this.#ports.log("warn", `${node} did not answer for job ${spec.id}: ${String(error)}`);
    } finally {
      this.#pushing.delete(key);
    }
  }

  async #halt(jobId: string, effect: Effect & { type: "halt" }): Promise<void> {
    const { node, attempt, reason } = effect;
    this.#nodes.stopping(node, jobId, attempt, this.#ports.now() + this.#config.leaseMs);
    try {
      await this.#ports.halt(node, { jobId, attempt, reason });
      this.#nodes.release(node, jobId, attempt);
      this.place();
    } catch {
      // The node hears it again with each answer to its heartbeats, and kills what is not renewed.
    }
  }

  async #tell(id: string, message: JobMessage): Promise<void> {
    try {
      await this.#actors.send(id, message);
    } catch (error) {
      this.#ports.log("warn", `job ${id}: ${(error as Error).message}`);
    }
  }

  /** A node may still hold what an earlier leader has ended: such attempts take their slots until it lists them no more. */
  countUnknown(node: string, attempts: readonly AttemptReport[], now: Ms): void {
    if (!this.#isNew(now)) return;
    for (const { jobId, attempt } of attempts) {
      const job = this.#actors.get(jobId);
      if (job?.state !== "running" || job.history.attempt !== attempt)
        this.#nodes.stopping(node, jobId, attempt, now + this.#config.leaseMs);
    }
  }

  /** Attempts that this node should hold, never confirmed and does not list: the order may have been lost. */
  repeatOrders(report: NodeReport, attempts: readonly AttemptReport[]): void {
    if (!this.#mayAct) return;
    const listed = new Set(attempts.map(({ jobId }) => jobId));
    for (const id of this.#running) {
      const job = this.#actors.get(id);
      if (job?.state !== "running" || job.accepted || listed.has(id)) continue;
      if (job.node === report.node && job.boot === report.boot) void this.#begin(job);
    }
  }

  /** The node runs as `boot` now: what earlier boots held is gone. */
  async returnLeases(node: string, boot: string): Promise<void> {
    const { nodesLostMax } = this.#config;
    const lost: Promise<Answer>[] = [];
    for (const id of this.#running) {
      const job = this.#actors.get(id);
      if (job?.state === "running" && job.node === node && job.boot !== boot)
        lost.push(this.#actors.send(id, { type: "nodeGone", node, boot, nodesLostMax }));
    }
    await Promise.all(lost);
  }
}

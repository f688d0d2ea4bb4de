import type { z } from "zod";
import { AppError } from "../../lib/errors.ts";
import { type SchedulerConfig, schedulerConfig } from "./config.ts";
import {
  type Claim,
  created,
  deadlineOf,
  dueMessage,
  type Effect,
  type FenceReason,
  fenceReason,
  type JobMessage,
  step,
} from "./job.step.ts";
import type {
  AttemptReport,
  HeartbeatAnswer,
  Job,
  JobError,
  JobResult,
  JobSpec,
  Ms,
  NodeReport,
  StartOrder,
} from "./job.types.ts";
import { type Answer, JobActors } from "./job-actors.ts";
import { newJobId } from "./job-id.ts";
import type { JobLogLine, JobQuery, JobStore, OutboxEntry } from "./job-store.ts";
import { viewOf } from "./job-view.ts";
import { NodeRegistry } from "./node-registry.ts";
import { OutboxSender } from "./outbox-sender.ts";
import { PendingIndex } from "./pending-index.ts";
import { chooseNode, explain, type Needs, type Placement } from "./placement.policy.ts";
import type { JobView, Submit } from "./scheduler.contract.ts";

export type SubmitRequest = z.output<typeof Submit> & { owner: string };

/** Everything that the leader needs of the world. It has no clock, timer or network of its own. */
export interface LeaderPorts {
  store: JobStore;
  now(): Ms;
  /** 0 to 1. */
  random(): number;
  /** Rejects when the outcome is unknown. */
  begin(
    node: string,
    order: StartOrder,
  ): Promise<{ outcome: "accepted" | "duplicate" | "refused"; reason?: string }>;
  halt(
    node: string,
    ref: { jobId: string; attempt: number; reason: FenceReason },
  ): Promise<unknown>;
  /** Which boot answers at this node now; rejects when none does. */
  probe?(node: string): Promise<{ boot: string }>;
  /** Calls the action with the parameters, `{ job, params }`; rejects when it must be tried again. */
  deliver(entry: OutboxEntry): Promise<unknown>;
  log(level: "info" | "warn" | "error", text: string): void;
  /** `nextWakeAt` may be earlier than it was. */
  rearm?(): void;
}

interface AttemptOf {
  jobId: string;
  attempt: number;
  node: string;
  boot: string;
}

const needsOf = ({ spec, history }: Job): Needs => ({
  kind: spec.kind,
  gpu: spec.requires.gpu === true,
  lastNode: history.lastNode,
});

/** The same request: everything that the client chose except the delay, which counts from the first one. */
function requestOf(spec: JobSpec): string {
  const { id: _id, createdAt: _createdAt, dueAt: _dueAt, ...request } = spec;
  return canonical(request);
}
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  fields.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${canonical(field)}`).join()}}`;
}

/**
 * The one that decides: accepts jobs, places them, keeps leases, commits results. Deterministic, given its ports; a
 * crash is dropping this object and opening another on the same store. Promise (design, section 4): at-least-once
 * execution, exactly one committed result, no accepted job lost.
 */
export class Leader {
  readonly #ports: LeaderPorts;
  readonly #config: SchedulerConfig;
  readonly #actors: JobActors;
  readonly #pending: PendingIndex;
  readonly #nodes: NodeRegistry;
  readonly #outbox: OutboxSender;
  readonly #openedAt: Ms;
  #paused = new Set<string>();
  /** Ids of running jobs. */
  readonly #running = new Set<string>();
  /** Claims that are being stored: the slot is reserved meanwhile. */
  readonly #claiming = new Map<string, { node: string; attempt: number }>();
  /** Attempts whose `begin` is under way. */
  readonly #pushing = new Set<string>();
  /** Jobs whose acceptance is being stored, for the bound of the queue. */
  #accepting = 0;
  /** No later than the first deadline of a running job. */
  #deadlineAt: Ms | undefined;
  #sweptAt: Ms;
  #closed = false;

  private constructor(ports: LeaderPorts, config: SchedulerConfig) {
    this.#ports = ports;
    this.#config = config;
    this.#openedAt = ports.now();
    this.#sweptAt = this.#openedAt;
    this.#pending = new PendingIndex(config.agePointMs);
    this.#nodes = new NodeRegistry({
      retiredBootsMax: config.retiredBootsMax,
      freshMs: config.nodeFreshMs,
      forgetMs: config.nodeForgetMs,
    });
    this.#outbox = new OutboxSender(
      {
        store: ports.store,
        now: ports.now,
        random: ports.random,
        deliver: async (entry) => void (await ports.deliver(entry)),
        log: ports.log,
        rearm: () => ports.rearm?.(),
      },
      config,
    );
    this.#actors = new JobActors(
      {
        store: ports.store,
        now: ports.now,
        moved: (before, after, effects) => this.#moved(before, after, effects),
        gone: (id) => this.#unclaim(id),
        settled: (entry) => this.#outbox.add(entry),
      },
      config,
    );
  }

  /** Reads what the last leader left: waiting and running jobs, paused queues. Callbacks follow with the first tick. */
  static async open(
    ports: LeaderPorts,
    config: SchedulerConfig = schedulerConfig,
  ): Promise<Leader> {
    const leader = new Leader(ports, config);
    leader.#paused = new Set(await ports.store.pausedQueues());
    for await (const job of ports.store.active()) leader.#actors.adopt(job);
    return leader;
  }

  /** Places and sends nothing more. What is on disk is for the next leader. */
  close(): void {
    this.#closed = true;
    this.#outbox.close();
  }

  // --- What clients say ---

  /** @throws AppError QUEUE_FULL, IDEMPOTENCY_MISMATCH; UNAVAILABLE when it is unknown whether it was stored. */
  async submit(request: SubmitRequest): Promise<JobView & { repeated: boolean }> {
    const now = this.#ports.now();
    const spec = this.#specOf(request, now);
    const { idempotencyKey, owner } = spec;
    if (this.#pending.size + this.#accepting >= this.#config.pendingMax) {
      const earlier =
        idempotencyKey === undefined
          ? undefined
          : await this.#ports.store.findByIdempotencyKey(owner, idempotencyKey);
      if (earlier) return this.#repeated(earlier, spec);
      throw new AppError("QUEUE_FULL", { limit: this.#config.pendingMax });
    }
    this.#accepting += 1;
    try {
      const { job, effects } = this.#placeNew(created(spec), now);
      const inserted = await this.#actors.insert(job, effects);
      if (!inserted.stored) this.#unclaim(spec.id);
      return inserted.stored
        ? { ...viewOf(inserted.job), repeated: false }
        : this.#repeated(inserted.job, spec);
    } finally {
      this.#accepting -= 1;
    }
  }

  /** Each job is accepted or refused by itself. */
  submitMany(
    requests: readonly SubmitRequest[],
  ): Promise<PromiseSettledResult<JobView & { repeated: boolean }>[]> {
    return Promise.allSettled(requests.map((request) => this.submit(request)));
  }

  async get(id: string): Promise<JobView> {
    const job = this.#actors.get(id) ?? (await this.#ports.store.get(id));
    if (!job) throw new AppError("JOB_NOT_FOUND", { id });
    return viewOf(job);
  }

  async list(query: JobQuery): Promise<{ jobs: JobView[]; next?: string }> {
    const { jobs, next } = await this.#ports.store.list(query);
    return { jobs: jobs.map(viewOf), next };
  }

  async readLog(id: string, page: { after?: number; limit: number }) {
    await this.get(id);
    return this.#ports.store.readLog(id, page);
  }

  async cancel(id: string, reason = ""): Promise<JobView> {
    const { answer, job } = this.#known(
      id,
      await this.#actors.send(id, { type: "cancel", reason }),
    );
    if (answer.outcome === "ignored" && answer.reason === "already-ended")
      throw new AppError("JOB_ENDED", { id, state: job.state });
    return viewOf(job);
  }

  async retry(id: string): Promise<JobView> {
    const { answer, job } = this.#known(id, await this.#actors.send(id, { type: "retry" }));
    if (answer.outcome === "ignored")
      throw new AppError("CONFLICT", {
        reason: `job ${id} is ${job.state}; only a failed or cancelled job can be run again`,
      });
    return viewOf(job);
  }

  async pause(queue: string): Promise<void> {
    await this.#ports.store.setQueuePaused(queue, true);
    this.#paused.add(queue);
  }

  async resume(queue: string): Promise<void> {
    await this.#ports.store.setQueuePaused(queue, false);
    this.#paused.delete(queue);
    this.#place();
  }

  async stats() {
    return { queues: await this.#ports.store.counts(), paused: [...this.#paused].sort() };
  }

  nodes() {
    const now = this.#ports.now();
    return [...this.#nodes.loads()].map(({ report, used, seenAt }) => ({
      ...report,
      used,
      lastSeenMs: now - seenAt,
    }));
  }

  // --- What compose nodes say ---

  /** Renews the leases of what the node holds and tells it what to kill; takes its load for placement. */
  async heartbeat(
    report: NodeReport,
    attempts: readonly AttemptReport[],
  ): Promise<HeartbeatAnswer> {
    const now = this.#ports.now();
    const news = this.#nodes.report(report, now);
    if (news === "late") {
      const fenced = attempts.map(({ jobId, attempt }) => ({
        jobId,
        attempt,
        reason: "superseded" as const,
      }));
      return { renewed: [], fenced };
    }
    if (news === "new-boot") await this.#returnLeases(report.node, report.boot);
    this.#nodes.listed(report.node, attempts);
    this.#repeatOrders(report, attempts);
    const { leaseMs } = this.#config;
    const answers = await Promise.all(
      attempts.map(async ({ jobId, attempt, progress, stage }) => ({
        jobId,
        attempt,
        answer: await this.#actors.send(jobId, {
          type: "renew",
          attempt,
          node: report.node,
          boot: report.boot,
          leaseMs,
          progress,
          stage,
        }),
      })),
    );
    const heard: HeartbeatAnswer = { renewed: [], fenced: [] };
    for (const { jobId, attempt, answer } of answers) {
      if (answer.outcome === "changed") heard.renewed.push({ jobId, attempt, leaseMs });
      else {
        const reason = fenceReason("job" in answer ? answer.job : undefined, attempt);
        heard.fenced.push({ jobId, attempt, reason });
        this.#nodes.stopping(report.node, jobId, attempt, this.#ports.now() + leaseMs);
      }
    }
    this.#place();
    return heard;
  }

  async complete(
    ref: AttemptOf & { result: JobResult },
  ): Promise<{ outcome: "committed" | "fenced" }> {
    const answer = await this.#actors.send(ref.jobId, { ...ref, type: "complete" });
    const won =
      answer.outcome === "changed" ||
      (answer.outcome === "ignored" && answer.reason === "already-done");
    return { outcome: won ? "committed" : "fenced" };
  }

  async fail(
    ref: AttemptOf & { error: JobError; retryable: boolean },
  ): Promise<{ outcome: "recorded" | "fenced" }> {
    const random = this.#ports.random();
    const answer = await this.#actors.send(ref.jobId, { ...ref, type: "fail", random });
    return { outcome: answer.outcome === "changed" ? "recorded" : "fenced" };
  }

  async handBack(given: {
    node: string;
    boot: string;
    attempts: readonly { jobId: string; attempt: number }[];
    cause: "drain" | "restart";
  }): Promise<{ returned: number }> {
    const { node, boot, cause } = given;
    if (cause === "drain") this.#nodes.draining(node, boot);
    const { nodesLostMax } = this.#config;
    const answers = await Promise.all(
      given.attempts.map(({ jobId, attempt }) =>
        this.#actors.send(jobId, { type: "handBack", attempt, node, cause, nodesLostMax }),
      ),
    );
    return { returned: answers.filter(({ outcome }) => outcome === "changed").length };
  }

  addLog(jobId: string, attempt: number, lines: readonly Omit<JobLogLine, "attempt">[]) {
    return this.#ports.store.appendLog(
      jobId,
      lines.map((line) => ({ ...line, attempt })),
    );
  }

  /** A hint that a node is gone. It gets no new work until it reports; only its lease or a new boot takes work away. */
  async nodeLost(node: string): Promise<void> {
    this.#nodes.suspect(node);
    try {
      const answer = await this.#ports.probe?.(node);
      if (answer) await this.#returnLeases(node, answer.boot);
    } catch {
      // No answer says nothing: the leases decide.
    }
  }

  // --- Time ---

  /** Does what is due: time limits and leases, delayed jobs, callbacks, and placement. Call at `nextWakeAt`. */
  async tick(): Promise<void> {
    if (this.#closed) return;
    const now = this.#ports.now();
    this.#nodes.sweep(now);
    this.#pending.promote(now);
    const work: Promise<unknown>[] = [this.#outbox.tick()];
    if (this.#actors.hasUnsure()) work.push(this.#actors.resync());
    if (now >= this.#sweepAt()) work.push(this.#sweep(now));
    for (const result of await Promise.allSettled(work))
      if (result.status === "rejected") this.#ports.log("warn", `sweep: ${result.reason}`);
    this.#place();
  }

  /** When `tick` has something to do; nothing: it can sleep until somebody speaks. */
  nextWakeAt(): Ms | undefined {
    if (this.#closed) return undefined;
    const now = this.#ports.now();
    const times = [
      this.#pending.nextReadyAt(),
      this.#outbox.nextAt(),
      this.#nodes.nextSweepAt(),
      this.#running.size > 0 ? this.#sweepAt() : undefined,
      this.#actors.hasUnsure() ? now + this.#config.sweepMs : undefined,
    ].filter((at) => at !== undefined);
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  #sweepAt(): Ms {
    const due = this.#deadlineAt ?? Number.POSITIVE_INFINITY;
    return Math.max(due, this.#sweptAt + this.#config.sweepMs);
  }

  async #sweep(now: Ms): Promise<void> {
    this.#sweptAt = now;
    this.#deadlineAt = undefined;
    const { nodesLostMax, leaseMs } = this.#config;
    // A lease that ended before a node could have renewed it with this leader tells nothing about the node.
    const countsAsLoss = now - this.#openedAt > leaseMs;
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

  // --- Placement ---

  /** Gives waiting jobs to nodes while there is room. */
  #place(): void {
    if (this.#closed) return;
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
  #placeNew(job: Job, now: Ms): { job: Job; effects: Effect[] } {
    const mayStart =
      !this.#closed &&
      job.spec.dueAt <= now &&
      this.#pending.readyCount === 0 &&
      !this.#paused.has(job.spec.queue) &&
      this.#nodes.hasFreeSlot();
    const claim = mayStart ? this.#reserve(job, now) : undefined;
    const claimed = claim && step(job, claim, now);
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
    return { type: "claim", node, boot, leaseMs: this.#config.leaseMs, why: this.#why(placement) };
  }

  #why(placement: Placement): string {
    return explain(placement, this.#config.rejectedShownMax);
  }

  #unclaim(id: string): void {
    const claiming = this.#claiming.get(id);
    if (!claiming) return;
    this.#claiming.delete(id);
    this.#nodes.release(claiming.node, id, claiming.attempt);
  }

  async #claim(id: string, claim: Claim): Promise<void> {
    try {
      const answer = await this.#actors.send(id, claim);
      if (answer.outcome !== "changed") this.#unclaim(id);
    } catch (error) {
      // It is unknown whether the claim is stored: the slot stays reserved until the job was read again.
      this.#ports.log("warn", `claim of job ${id}: ${(error as Error).message}`);
      this.#ports.rearm?.();
    }
  }

  /** Keeps the indexes in step with a job that has moved, then carries out what must follow. */
  #moved(before: Job | undefined, after: Job, effects: readonly Effect[]): void {
    const { id } = after.spec;
    this.#unclaim(id);
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
    if (this.#closed) return;
    for (const effect of effects) {
      if (effect.type === "begin" && after.state === "running") void this.#begin(after);
      if (effect.type === "halt") void this.#halt(id, effect);
    }
    if (after.state !== "running") this.#place();
    this.#ports.rearm?.();
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
      this.#place();
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

  /** Attempts that this node should hold, never confirmed and does not list: the order may have been lost. */
  #repeatOrders(report: NodeReport, attempts: readonly AttemptReport[]): void {
    const listed = new Set(attempts.map(({ jobId }) => jobId));
    for (const id of this.#running) {
      const job = this.#actors.get(id);
      if (job?.state !== "running" || job.accepted || listed.has(id)) continue;
      if (job.node === report.node && job.boot === report.boot) void this.#begin(job);
    }
  }

  /** The node runs as `boot` now: what earlier boots held is gone. */
  async #returnLeases(node: string, boot: string): Promise<void> {
    const { nodesLostMax } = this.#config;
    const lost: Promise<Answer>[] = [];
    for (const id of this.#running) {
      const job = this.#actors.get(id);
      if (job?.state === "running" && job.node === node && job.boot !== boot)
        lost.push(this.#actors.send(id, { type: "nodeGone", node, boot, nodesLostMax }));
    }
    await Promise.all(lost);
  }

  #specOf(request: SubmitRequest, now: Ms): JobSpec {
    const { delayMs, ...rest } = request;
    return {
      ...rest,
      id: newJobId(now, this.#ports.random),
      createdAt: now,
      dueAt: now + delayMs,
      backoffMsMax: Math.max(this.#config.backoffMsMax, request.backoffMs),
    };
  }

  #repeated(earlier: Job, spec: JobSpec): JobView & { repeated: boolean } {
    if (requestOf(earlier.spec) !== requestOf(spec))
      throw new AppError("IDEMPOTENCY_MISMATCH", { key: spec.idempotencyKey });
    return { ...viewOf(earlier), repeated: true };
  }

  #known(id: string, answer: Answer): { answer: Answer; job: Job } {
    if (answer.outcome === "missing") throw new AppError("JOB_NOT_FOUND", { id });
    return { answer, job: answer.job };
  }
}

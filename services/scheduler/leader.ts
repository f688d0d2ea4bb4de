import { AppError } from "../../lib/errors.ts";
import { type SchedulerConfig, schedulerConfig } from "./config.ts";
import { Dispatcher } from "./dispatcher.ts";
import type { JobMessage } from "./job.messages.ts";
import { created, fenceReason } from "./job.step.ts";
import type {
  AttemptReport,
  HeartbeatAnswer,
  Job,
  JobError,
  JobResult,
  JobSpec,
  Ms,
  NodeReport,
} from "./job.types.ts";
import { type Answer, JobActors } from "./job-actors.ts";
import { isSameRequest, type SubmitRequest, specOf } from "./job-request.ts";
import type { JobLogLine, JobQuery } from "./job-store.ts";
import { viewOf } from "./job-view.ts";
import type { LeaderPorts } from "./leader-ports.ts";
import { OutboxSender } from "./outbox-sender.ts";
import type { JobView } from "./scheduler.contract.ts";
import { StrayJobs } from "./stray-jobs.ts";

export type { SubmitRequest } from "./job-request.ts";
export type { LeaderPorts } from "./leader-ports.ts";

interface AttemptOf {
  jobId: string;
  attempt: number;
  node: string;
  boot: string;
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
  readonly #dispatcher: Dispatcher;
  readonly #outbox: OutboxSender;
  readonly #strays: StrayJobs;
  /** Jobs whose acceptance is being stored, for the bound of the queue. */
  #accepting = 0;
  #closed = false;

  private constructor(ports: LeaderPorts, config: SchedulerConfig) {
    this.#ports = ports;
    this.#config = config;
    this.#outbox = new OutboxSender(
      {
        store: ports.store,
        now: ports.now,
        random: ports.random,
        deliver: async (entry) => {
          this.#mustLead();
          await ports.deliver(entry);
        },
        log: ports.log,
        rearm: () => ports.rearm?.(),
      },
      config,
    );
    this.#actors = new JobActors(
      {
        store: ports.store,
        term: ports.term,
        now: ports.now,
        deposed: () => this.#depose(),
        moved: (before, after, effects) => this.#dispatcher.moved(before, after, effects),
        gone: (id) => this.#dispatcher.unclaim(id),
        rearm: () => ports.rearm?.(),
        unknownOutcome: () => this.#strays.unknownOutcome(),
        settled: (entry) => this.#outbox.add(entry),
        step: ports.step,
      },
      config,
    );
    this.#dispatcher = new Dispatcher(ports, config, this.#actors);
    this.#strays = new StrayJobs(
      {
        store: ports.store,
        term: ports.term,
        now: ports.now,
        isKnown: ({ spec, history }) =>
          (this.#actors.get(spec.id)?.history.version ?? 0) >= history.version,
        found: (id) => this.#actors.doubt(id),
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
    for (const queue of await ports.store.pausedQueues()) leader.#dispatcher.setPaused(queue, true);
    for await (const job of ports.store.active()) leader.#actors.adopt(job);
    return leader;
  }

  /** Callbacks that are known here and not delivered yet. */
  get outboxSize(): number {
    return this.#outbox.size;
  }

  /** Places and sends nothing more, and answers NOT_LEADER. What is on disk is for the next leader. */
  close(): void {
    this.#closed = true;
    this.#outbox.close();
    this.#dispatcher.close();
  }

  #depose(): void {
    if (this.#closed) return;
    this.close();
    this.#ports.deposed();
  }

  /**
   * A process that was stopped for longer than its lease goes on as if nothing had happened: so the clock is asked.
   * @throws AppError NOT_LEADER
   */
  #mustLead(): void {
    if (!this.#closed && !this.#ports.holdsLease()) this.#depose();
    if (this.#closed) throw new AppError("NOT_LEADER");
  }

  /** What is told from memory is true only if nobody else led until it was told. A stored change needs no such proof. */
  async #led<T>(work: () => Promise<T>, isStored: (answer: T) => boolean = () => false) {
    this.#mustLead();
    const answer = await work();
    if (!isStored(answer)) this.#mustLead();
    return answer;
  }

  /** Sends a message to a job; the answer may be told. */
  #tell(id: string, message: JobMessage): Promise<Answer> {
    return this.#led(
      () => this.#actors.send(id, message),
      ({ outcome }) => outcome === "changed",
    );
  }

  // --- What clients say ---

  /** @throws AppError QUEUE_FULL, IDEMPOTENCY_MISMATCH; UNAVAILABLE when it is unknown whether it was stored. */
  async submit(request: SubmitRequest): Promise<JobView & { repeated: boolean }> {
    this.#mustLead();
    const now = this.#ports.now();
    const spec = specOf(request, now, this.#ports.random, this.#config);
    const { idempotencyKey, owner } = spec;
    if (this.#dispatcher.pendingCount + this.#accepting >= this.#config.pendingMax) {
      const earlier =
        idempotencyKey === undefined
          ? undefined
          : await this.#ports.store.findByIdempotencyKey(owner, idempotencyKey);
      if (earlier) return this.#repeated(earlier, spec);
      throw new AppError("QUEUE_FULL", { limit: this.#config.pendingMax });
    }
    this.#accepting += 1;
    try {
      const { job, effects } = this.#dispatcher.placeNew(created(spec), now);
      const inserted = await this.#actors.insert(job, effects);
      if (!inserted.stored) this.#dispatcher.unclaim(spec.id);
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
    const job = await this.#led(
      async () => this.#actors.get(id) ?? (await this.#ports.store.get(id)),
    );
    if (!job) throw new AppError("JOB_NOT_FOUND", { id });
    return viewOf(job);
  }

  async list(query: JobQuery): Promise<{ jobs: JobView[]; next?: string }> {
    const { jobs, next } = await this.#led(() => this.#ports.store.list(query));
    return { jobs: jobs.map(viewOf), next };
  }

  async readLog(id: string, page: { after?: number; limit: number }) {
    await this.get(id);
    return this.#ports.store.readLog(id, page);
  }

  async cancel(id: string, reason = ""): Promise<JobView> {
    const { answer, job } = this.#known(id, await this.#tell(id, { type: "cancel", reason }));
    if (answer.outcome === "ignored" && answer.reason === "already-ended")
      throw new AppError("JOB_ENDED", { id, state: job.state });
    return viewOf(job);
  }

  async retry(id: string): Promise<JobView> {
    const { answer, job } = this.#known(id, await this.#tell(id, { type: "retry" }));
    if (answer.outcome === "ignored")
      throw new AppError("CONFLICT", {
        reason: `job ${id} is ${job.state}; only a failed or cancelled job can be run again`,
      });
    return viewOf(job);
  }

  async pause(queue: string): Promise<void> {
    await this.#led(() => this.#ports.store.setQueuePaused(queue, true));
    this.#dispatcher.setPaused(queue, true);
  }

  async resume(queue: string): Promise<void> {
    await this.#led(() => this.#ports.store.setQueuePaused(queue, false));
    this.#dispatcher.setPaused(queue, false);
  }

  async stats() {
    const queues = await this.#led(() => this.#ports.store.counts());
    return { queues, paused: this.#dispatcher.pausedQueues };
  }

  nodes() {
    this.#mustLead();
    const now = this.#ports.now();
    return [...this.#dispatcher.nodes.loads()].map(({ report, used, seenAt }) => ({
      ...report,
      used,
      lastSeenMs: now - seenAt,
    }));
  }

  // --- What compose nodes say ---

  /** Renews the leases of what the node holds and tells it what to kill; takes its load for placement. */
  heartbeat(report: NodeReport, attempts: readonly AttemptReport[]): Promise<HeartbeatAnswer> {
    return this.#led(() => this.#heartbeat(report, attempts));
  }

  async #heartbeat(
    report: NodeReport,
    attempts: readonly AttemptReport[],
  ): Promise<HeartbeatAnswer> {
    const now = this.#ports.now();
    const news = this.#dispatcher.nodes.report(report, now);
    if (news === "late") {
      const fenced = attempts.map(({ jobId, attempt }) => ({
        jobId,
        attempt,
        reason: "superseded" as const,
      }));
      return { renewed: [], fenced };
    }
    await this.#dispatcher.returnLeases(report.node, report.boot);
    this.#dispatcher.nodes.listed(report.node, attempts);
    this.#dispatcher.countUnknown(report.node, attempts, now);
    this.#dispatcher.repeatOrders(report, attempts);
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
        const job = "job" in answer ? answer.job : undefined;
        heard.fenced.push({ jobId, attempt, reason: fenceReason(job, attempt) });
        // Of the latest attempt it is known already whether it ended by itself or is being killed.
        if (job?.history.attempt !== attempt)
          this.#dispatcher.nodes.stopping(report.node, jobId, attempt, now + leaseMs);
      }
    }
    this.#dispatcher.place();
    return heard;
  }

  async complete(
    ref: AttemptOf & { result: JobResult },
  ): Promise<{ outcome: "committed" | "fenced" }> {
    const sent = this.#tell(ref.jobId, { ...ref, type: "complete" });
    this.#dispatcher.attemptEnded(ref);
    const answer = await sent;
    const won =
      answer.outcome === "changed" ||
      (answer.outcome === "ignored" && answer.reason === "already-done");
    return { outcome: won ? "committed" : "fenced" };
  }

  async fail(
    ref: AttemptOf & { error: JobError; retryable: boolean },
  ): Promise<{ outcome: "recorded" | "fenced" }> {
    const random = this.#ports.random();
    const sent = this.#tell(ref.jobId, { ...ref, type: "fail", random });
    this.#dispatcher.attemptEnded(ref);
    const answer = await sent;
    return { outcome: answer.outcome === "changed" ? "recorded" : "fenced" };
  }

  async handBack(given: {
    node: string;
    boot: string;
    attempts: readonly { jobId: string; attempt: number }[];
    cause: "drain" | "restart";
  }): Promise<{ returned: number }> {
    const { node, boot, cause } = given;
    if (cause === "drain") this.#dispatcher.nodes.draining(node, boot);
    const { nodesLostMax } = this.#config;
    const answers = await Promise.all(
      given.attempts.map(({ jobId, attempt }) =>
        this.#tell(jobId, { type: "handBack", attempt, node, cause, nodesLostMax }),
      ),
    );
    return { returned: answers.filter(({ outcome }) => outcome === "changed").length };
  }

  addLog(jobId: string, attempt: number, lines: readonly Omit<JobLogLine, "attempt">[]) {
    this.#mustLead();
    return this.#ports.store.appendLog(
      jobId,
      lines.map((line) => ({ ...line, attempt })),
    );
  }

  /** A hint that a node is gone. It gets no new work until it reports; only its lease or a new boot takes work away. */
  async nodeLost(node: string): Promise<void> {
    if (this.#closed) return;
    this.#dispatcher.nodes.suspect(node);
    try {
      const answer = await this.#ports.probe?.(node);
      if (answer) await this.#dispatcher.returnLeases(node, answer.boot);
    } catch {
      // No answer says nothing: the leases decide.
    }
  }

  // --- Time ---

  /** Does what is due: time limits and leases, delayed jobs, callbacks, and placement. Call at `nextWakeAt`. */
  async tick(): Promise<void> {
    if (!this.#closed && !this.#ports.holdsLease()) this.#depose();
    if (this.#closed) return;
    const now = this.#ports.now();
    if (this.#strays.isDue(now)) this.#outbox.lookAgain();
    const work = [this.#outbox.tick(), this.#dispatcher.tick(now), this.#strays.tick(now)];
    // A write without an answer may have left a callback in the store.
    if (this.#actors.hasUnsure())
      work.push(this.#actors.resync().then(() => this.#outbox.lookAgain()));
    for (const result of await Promise.allSettled(work))
      if (result.status === "rejected") this.#ports.log("warn", `sweep: ${result.reason}`);
    this.#dispatcher.place();
  }

  /** When `tick` has something to do; nothing: it can sleep until somebody speaks. */
  nextWakeAt(): Ms | undefined {
    if (this.#closed) return undefined;
    const times = [
      this.#dispatcher.nextWakeAt(),
      this.#outbox.nextAt(),
      this.#actors.hasUnsure() ? this.#ports.now() + this.#config.sweepMs : undefined,
      this.#strays.nextAt(),
    ].filter((at) => at !== undefined);
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  #repeated(earlier: Job, spec: JobSpec): JobView & { repeated: boolean } {
    if (!isSameRequest(earlier.spec, spec))
      throw new AppError("IDEMPOTENCY_MISMATCH", { key: spec.idempotencyKey });
    return { ...viewOf(earlier), repeated: true };
  }

  #known(id: string, answer: Answer): { answer: Answer; job: Job } {
    if (answer.outcome === "missing") throw new AppError("JOB_NOT_FOUND", { id });
    return { answer, job: answer.job };
  }
}

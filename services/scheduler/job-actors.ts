import { AppError, asAppError } from "../../lib/errors.ts";
import { Mailbox, MailboxFullError } from "../../mixins/mailbox.ts";
import type { SchedulerConfig } from "./config.ts";
import type { Effect, IgnoredReason, JobMessage } from "./job.messages.ts";
import { isEnded, step } from "./job.step.ts";
import type { Job, Ms } from "./job.types.ts";
import type { ChangeResult, JobChange, JobLogLine, JobStore, OutboxEntry } from "./job-store.ts";
import { viewOf } from "./job-view.ts";

/** Result code of SQLite, where the job store is one. */
const SQLITE_FULL = 13;

export interface ActorPorts {
  store: JobStore;
  term: number;
  now(): Ms;
  /** The store has refused a change because a later leader has taken over. */
  deposed(): void;
  /** A job has a new state that is on disk (or, for a change that nobody was promised, in memory only). */
  moved(before: Job | undefined, after: Job, effects: readonly Effect[]): void;
  /** A job that was to be stored turned out not to be. */
  gone(id: string): void;
  /** A job is to be read again: there is work for `resync`. */
  rearm(): void;
  /** It is not known whether a write was carried out, or will be. */
  unknownOutcome(): void;
  /** Written in the same commit as the state that caused it. */
  settled(entry: OutboxEntry): void;
  /** The state machine, if it is not the real one. */
  step?: typeof step;
}

export type Answer =
  | { outcome: "changed"; job: Job }
  | { outcome: "ignored"; reason: IgnoredReason; job: Job }
  | { outcome: "missing" };

/** Called for each ended job of which more than the committed output may lie in the storage. */
export const removeOutputsAction = "storage.removeOutputs";

/** To an actor itself: what is stored counts, whatever is remembered. */
const reread = { type: "reread" } as const;

/** What must be called, at least once, when a job has ended: whoever asked for that, and who keeps its outputs. */
function callbacksOf(job: Job): OutboxEntry[] {
  const { spec, history, state } = job;
  const id = `${spec.id}:${history.version}`;
  const callbacks: OutboxEntry[] = [];
  if (spec.onSettled) {
    const { action, params } = spec.onSettled;
    callbacks.push({ id, jobId: spec.id, action, params: { job: viewOf(job), params } });
  }
  // An attempt that lost is removed by its node; one that is gone for good left its output behind.
  const keep = state === "success" ? history.attempt : undefined;
  if (history.attempt > (keep === undefined ? 0 : 1))
    callbacks.push({
      id: `${id}:outputs`,
      jobId: spec.id,
      action: removeOutputsAction,
      params: { jobId: spec.id, upTo: history.attempt, ...(keep === undefined ? {} : { keep }) },
    });
  return callbacks;
}

/** The commit that goes with a step: the state, its log lines, its callbacks. */
function changeOf(before: Job | undefined, after: Job, effects: readonly Effect[], now: Ms) {
  const log: JobLogLine[] = [];
  const outbox: OutboxEntry[] = [];
  for (const effect of effects) {
    if (effect.type === "log")
      log.push({
        at: now,
        attempt: after.history.attempt,
        level: effect.level,
        text: effect.text,
      });
    if (effect.type === "settled") outbox.push(...callbacksOf(after));
  }
  return { next: after, expectedVersion: before?.history.version ?? 0, log, outbox };
}

/** Same version and the same claim or end: the very state that was to be written. */
const isSame = (a: Job, b: Job) =>
  a.history.version === b.history.version &&
  a.history.attempt === b.history.attempt &&
  a.state === b.state &&
  ("boot" in a ? a.boot : "") === ("boot" in b ? b.boot : "") &&
  ("endedAt" in a ? a.endedAt : 0) === ("endedAt" in b ? b.endedAt : 0);

/**
 * The jobs as actors: one message at a time each; `step`, compare-and-set, then effects. Pending and running jobs
 * are kept in memory, ended ones are read when somebody speaks of them.
 */
export class JobActors {
  readonly #ports: ActorPorts;
  readonly #config: SchedulerConfig;
  readonly #active = new Map<string, Job>();
  readonly #mailbox: Mailbox<JobMessage | typeof reread, Answer>;
  /** Jobs of which a write may or may not have happened: to be read again. */
  readonly #unsure = new Set<string>();

  constructor(ports: ActorPorts, config: SchedulerConfig) {
    this.#ports = ports;
    this.#config = config;
    this.#mailbox = new Mailbox({
      handle: (id, message) => this.#handle(id, message),
      waitingMax: config.mailboxMax,
    });
  }

  get(id: string): Job | undefined {
    return this.#active.get(id);
  }

  hasUnsure(): boolean {
    return this.#unsure.size > 0;
  }

  /**
   * Takes over a job as an earlier leader has stored it. The end of its lease is on that one's clock, which may differ
   * from ours: the node gets time for two reports, and never more than a lease.
   */
  adopt(job: Job): void {
    const now = this.#ports.now();
    const { heartbeatMs, leaseMs } = this.#config;
    const within = (end: Ms) => Math.min(now + leaseMs, Math.max(end, now + 2 * heartbeatMs));
    this.#move(job.state === "running" ? { ...job, leaseUntil: within(job.leaseUntil) } : job, []);
  }

  /**
   * Stores a new job. `effects` are those of steps that it has already made before it is stored.
   * @returns the stored job, or the earlier one with the same idempotency key.
   */
  async insert(job: Job, effects: readonly Effect[]): Promise<{ stored: boolean; job: Job }> {
    const change = changeOf(undefined, job, effects, this.#ports.now());
    const { stored, current } = await this.#write(change);
    if (stored) {
      this.#move(job, effects);
      return { stored, job };
    }
    if (!current) throw new AppError("UNAVAILABLE", { reason: "the job could not be stored" });
    // A write that nobody heard of again has come through: the job is there, and nobody here knows of it.
    if (!isEnded(current.state) && !this.#active.has(current.spec.id)) this.doubt(current.spec.id);
    return { stored, job: current };
  }

  /** @throws AppError UNAVAILABLE when the outcome is unknown or too much waits; sending again is safe. */
  async send(id: string, message: JobMessage): Promise<Answer> {
    try {
      return await this.#mailbox.send(id, message);
    } catch (error) {
      if (error instanceof MailboxFullError)
        throw new AppError("UNAVAILABLE", { reason: `too many messages for job ${id}` }, error);
      if (asAppError(error)) throw error;
      throw new AppError("UNAVAILABLE", { reason: "the job store does not answer" }, error);
    }
  }

  /** What is remembered of this job may not be what is stored. */
  doubt(id: string): void {
    this.#unsure.add(id);
    this.#ports.rearm();
  }

  /** Reads jobs again of which a write may or may not have happened. */
  async resync(): Promise<void> {
    await Promise.all([...this.#unsure].map((id) => this.#mailbox.send(id, reread)));
  }

  async #reread(id: string): Promise<Answer> {
    const job = await this.#ports.store.get(id);
    this.#unsure.delete(id);
    if (!job) {
      this.#active.delete(id);
      this.#ports.gone(id);
      return { outcome: "missing" };
    }
    this.#move(job, []);
    return { outcome: "changed", job };
  }

  async #handle(id: string, message: JobMessage | typeof reread): Promise<Answer> {
    if (message.type === "reread") return this.#reread(id);
    // A running job is in memory. Of another it makes no difference whether its node had confirmed the order; short work
    // has ended before the confirmation comes, and each would be read from the store for nothing.
    if (message.type === "accepted" && !this.#active.has(id)) return { outcome: "missing" };
    const { store, now } = this.#ports;
    for (let tries = 0; tries < this.#config.writeTriesMax; tries++) {
      const job = this.#active.get(id) ?? (await store.get(id));
      if (!job) return { outcome: "missing" };
      const result = (this.#ports.step ?? step)(job, message, now());
      if (result.outcome === "ignored") return { ...result, job };
      if (!result.durable) {
        this.#move(result.job, result.effects);
        return { outcome: "changed", job: result.job };
      }
      const change = changeOf(job, result.job, result.effects, now());
      const { stored, current } = await this.#write(change);
      if (stored) {
        this.#move(result.job, result.effects);
        for (const entry of change.outbox) this.#ports.settled(entry);
        return { outcome: "changed", job: result.job };
      }
      // Somebody else moved it: what is stored counts.
      if (current) this.#move(current, []);
      else this.#active.delete(id);
    }
    throw new AppError("UNAVAILABLE", {
      reason: `job ${id} is being changed by another scheduler`,
    });
  }

  /** A write whose answer got lost is looked up before anybody is told anything. */
  async #write(change: Omit<JobChange, "term">): Promise<{ stored: boolean; current?: Job }> {
    const result = await this.#attempt({ ...change, term: this.#ports.term });
    if (!("deposed" in result) || !result.deposed) return result;
    this.#ports.deposed();
    throw new AppError("NOT_LEADER");
  }

  async #attempt(change: JobChange): Promise<ChangeResult> {
    const { id } = change.next.spec;
    try {
      return await this.#ports.store.change(change);
    } catch (cause) {
      this.#unsure.add(id);
      this.#ports.unknownOutcome();
      let current: Job | undefined;
      try {
        current = await this.#ports.store.get(id);
      } catch {
        throw new AppError("UNAVAILABLE", { reason: "the job store does not answer" }, cause);
      }
      if (current && isSame(current, change.next)) {
        this.#unsure.delete(id);
        return { stored: true };
      }
      if ((cause as { errcode?: number }).errcode === SQLITE_FULL)
        throw new AppError("DISK_FULL", { where: "the disk of the job store" }, cause);
      const type = asAppError(cause)?.type;
      if (type === "DISK_FULL" || type === "PAYLOAD_TOO_LARGE") throw cause;
      throw new AppError("UNAVAILABLE", { reason: "the job store did not take the change" }, cause);
    }
  }

  #move(after: Job, effects: readonly Effect[]): void {
    const { id } = after.spec;
    const before = this.#active.get(id);
    // An insertion may hear of its success later than others have moved the job on.
    if (before && before.history.version > after.history.version) return;
    if (isEnded(after.state)) this.#active.delete(id);
    else this.#active.set(id, after);
    this.#ports.moved(before, after, effects);
  }
}

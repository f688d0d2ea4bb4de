import type {
  AttemptReport,
  HeartbeatAnswer,
  JobError,
  JobResult,
  Ms,
  StartOrder,
} from "../scheduler/job.types.ts";
import { type NodeLimits, nodeLimits } from "./config.ts";
import { HeartbeatPacer } from "./heartbeat-pacer.ts";
import {
  groupByHolder,
  type HeldAttempt,
  isAlive,
  keyOf,
  keyText,
  type StopCause,
} from "./held-attempt.ts";
import { LatestAttempts } from "./latest-attempts.ts";
import type { AttemptKey, ExecutionOutcome, JournalEntry, NodePorts } from "./node-ports.ts";
import { Repeater } from "./repeater.ts";

export type BeginAnswer =
  | { outcome: "accepted" | "duplicate" }
  | { outcome: "refused"; reason: string };

export interface AgentIdentity {
  node: string;
  /** Identity of this run of the node. */
  boot: string;
  slots: number;
  kinds: readonly string[];
}

/**
 * A compose node's side of the leases (design, section 4, rules 2 to 7), without timers, clock or I/O of its
 * own: the host calls `tick` when the agent asked for it. The simulation runs this very class.
 */
export class NodeAgent {
  readonly #identity: AgentIdentity;
  readonly #ports: NodePorts;
  readonly #limits: NodeLimits;
  readonly #held = new Map<string, HeldAttempt>();
  readonly #latest: LatestAttempts;
  readonly #pacer: HeartbeatPacer;
  readonly #repeater: Repeater;
  #ready = false;
  #draining = false;
  #drainAt = Number.POSITIVE_INFINITY;
  #waiters: { holds: () => boolean; resolve: () => void }[] = [];

  constructor(identity: AgentIdentity, ports: NodePorts, limits: NodeLimits = nodeLimits) {
    this.#identity = identity;
    this.#ports = ports;
    this.#limits = limits;
    this.#repeater = new Repeater(
      () => ports.nowMonotonic(),
      () => this.#rearm(),
      limits,
    );
    this.#latest = new LatestAttempts(limits.rememberedMax);
    this.#pacer = new HeartbeatPacer(limits);
  }

  /**
   * Clears what an earlier run left behind and gives its leases back. Orders are taken once the orphans are
   * dead; the first heartbeat waits for the scheduler's answer, since it tells that the earlier run is over.
   */
  async recover(): Promise<void> {
    const orphans = this.#ports.journal.entries();
    for (const orphan of orphans) await this.#ports.killOrphan(orphan);
    this.#ready = true;
    if (orphans.length === 0) this.#beatNow();
    else this.#giveBack(orphans);
  }

  #giveBack(orphans: readonly JournalEntry[]): void {
    this.#ports.log("warn", `${orphans.length} attempts of an earlier run are handed back`);
    let open = 0;
    for (const group of groupByHolder(orphans)) {
      open += 1;
      const first = group[0] as JournalEntry;
      const cause = first.released ? "drain" : "restart";
      this.#repeater.add(
        () => this.#ports.handBack(first, group.map(keyOf), cause),
        () => {
          for (const entry of group) this.#discard(entry, true);
          open -= 1;
          if (open === 0) this.#beatNow();
        },
      );
    }
  }

  /** Takes an attempt. Answers when it is in the journal; the work itself goes on after that. */
  async begin(order: StartOrder): Promise<BeginAnswer> {
    const refusal = this.#refusal(order);
    if (refusal) return { outcome: "refused", reason: refusal };
    const key = keyText(order);
    if (this.#latest.of(order.jobId) === order.attempt) {
      const same = this.#held.get(key);
      await same?.journaled;
      return { outcome: "duplicate" };
    }
    for (const other of this.#held.values())
      if (other.order.jobId === order.jobId) this.#stop(other, "fenced");
    if (this.#taken() >= this.#identity.slots)
      return { outcome: "refused", reason: "no free slot" };
    const attempt: HeldAttempt = {
      order,
      phase: "accepting",
      leaseUntil: this.#ports.nowMonotonic() + Math.min(order.leaseMs, this.#limits.leaseMsMax),
      progress: 0,
      abort: new AbortController(),
      journaled: Promise.resolve(),
    };
    this.#held.set(key, attempt);
    this.#latest.note(order);
    const { node, boot } = this.#identity;
    const entry = { ...keyOf(order), kind: order.kind, node, boot, processes: [], released: false };
    const written = this.#ports.journal.add(entry);
    attempt.journaled = written.catch(() => undefined);
    try {
      await written;
    } catch (error) {
      this.#latest.forget(order.jobId);
      this.#drop(attempt);
      return { outcome: "refused", reason: `the node's journal: ${(error as Error).message}` };
    }
    attempt.phase = "waiting";
    if (attempt.stopped) this.#leave(attempt);
    else this.#startWaiting();
    this.#rearm();
    return { outcome: "accepted" };
  }

  /** Kills an attempt; also keeps an order for it that is still on its way from starting. */
  halt(key: AttemptKey, _reason: string): { held: boolean } {
    this.#latest.note(key);
    const attempt = this.#held.get(keyText(key));
    if (!attempt || attempt.stopped === "fenced" || attempt.stopped === "lease")
      return { held: false };
    this.#stop(attempt, "fenced");
    return { held: true };
  }

  probe(): { boot: string; attempts: AttemptKey[] } {
    return { boot: this.#identity.boot, attempts: this.#reportable().map((a) => keyOf(a.order)) };
  }

  /**
   * Takes no more orders. Running work may finish within `graceMs`; what is left then is stopped and handed
   * back. Resolves when the node holds nothing any more.
   */
  drain(graceMs: Ms): Promise<void> {
    this.#draining = true;
    this.#drainAt = Math.min(this.#drainAt, this.#ports.nowMonotonic() + graceMs);
    if (this.#ready) this.#beatNow();
    this.tick(this.#ports.nowMonotonic());
    return this.#once(() => this.isEmpty);
  }

  /** Resolves when no work runs or is about to; the scheduler may not know of its end yet. */
  whenQuiet(): Promise<void> {
    return this.#once(() => [...this.#held.values()].every(({ phase }) => phase === "settling"));
  }

  #once(holds: () => boolean): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push({ holds, resolve }));
  }

  /** Takes orders again after a drain. */
  undrain(): void {
    this.#draining = false;
    this.#drainAt = Number.POSITIVE_INFINITY;
    this.#beatNow();
  }

  /** Nothing runs and nothing waits to be told to the scheduler. */
  get isEmpty(): boolean {
    return this.#held.size === 0 && this.#repeater.isIdle;
  }

  get nextWakeAt(): Ms {
    let at = Math.min(this.#pacer.dueAt, this.#drainAt);
    for (const attempt of this.#held.values())
      if (isAlive(attempt)) at = Math.min(at, attempt.leaseUntil);
    return Math.min(at, this.#repeater.nextAt);
  }

  /** Does what is due. Safe to call at any time. */
  tick(now: Ms): void {
    if (now >= this.#drainAt) {
      this.#drainAt = Number.POSITIVE_INFINITY;
      for (const attempt of this.#held.values()) this.#stop(attempt, "drain");
    }
    for (const attempt of this.#held.values())
      if (isAlive(attempt) && now >= attempt.leaseUntil) {
        this.#ports.log("warn", `${keyText(attempt.order)} was not renewed in time and is killed`);
        this.#stop(attempt, "lease");
      }
    if (now >= this.#pacer.dueAt) this.#beat(now);
    this.#repeater.tick(now);
    this.#rearm();
  }

  #refusal(order: StartOrder): string | undefined {
    if (!this.#ready) return "the node is starting";
    if (order.boot !== this.#identity.boot) return "the order is for another run of this node";
    const known = this.#latest.of(order.jobId);
    if (known > order.attempt) return `attempt ${known} is known already`;
    if (known === order.attempt) return undefined;
    if (this.#draining) return "the node is draining";
    if (!this.#identity.kinds.includes(order.kind))
      return `this node does no work of kind ${order.kind}`;
    if (this.#held.size >= this.#limits.unsettledMax) return "too many attempts are not settled";
    return undefined;
  }

  /** Slots that are spoken for. One whose work is being killed is free again: a new order waits for it. */
  #taken(): number {
    let taken = 0;
    for (const attempt of this.#held.values())
      if (attempt.phase !== "settling" && !attempt.stopped) taken += 1;
    return taken;
  }

  #startWaiting(): void {
    let executing = 0;
    for (const attempt of this.#held.values()) if (attempt.phase === "executing") executing += 1;
    for (const attempt of this.#held.values()) {
      if (executing >= this.#identity.slots) return;
      if (attempt.phase !== "waiting" || attempt.stopped) continue;
      executing += 1;
      void this.#execute(attempt);
    }
  }

  async #execute(attempt: HeldAttempt): Promise<void> {
    attempt.phase = "executing";
    let outcome: ExecutionOutcome;
    try {
      outcome = await this.#ports.execute(attempt.order, attempt.abort.signal, (progress, stage) =>
        this.#progress(attempt, progress, stage),
      );
    } catch (error) {
      const message = (error as Error).message;
      outcome = { ok: false, error: { type: "INTERNAL", message }, retryable: true };
    }
    if (attempt.stopped && !(attempt.stopped === "drain" && outcome.ok)) this.#leave(attempt);
    else if (outcome.ok) this.#complete(attempt, outcome.result);
    else this.#fail(attempt, outcome.error, outcome.retryable);
    this.#startWaiting();
    this.#rearm();
  }

  #progress(attempt: HeldAttempt, progress: number, stage?: string): void {
    if (attempt.phase !== "executing" || attempt.stopped) return;
    attempt.progress = Math.max(attempt.progress, progress);
    if (stage !== undefined) attempt.stage = stage;
    if (this.#pacer.soon()) this.#rearm();
  }

  #stop(attempt: HeldAttempt, cause: StopCause): void {
    // What has ended is not stopped: of a reported result only the answer to `complete` tells who won.
    if (attempt.phase === "settling") return;
    if (attempt.stopped === "fenced" || attempt.stopped === "lease") return;
    attempt.stopped = cause;
    attempt.abort.abort(new DOMException(cause, "AbortError"));
    if (attempt.phase === "waiting") this.#leave(attempt);
  }

  /** The work has been stopped and is gone; now nobody may find anything of it. */
  #leave(attempt: HeldAttempt): void {
    attempt.phase = "settling";
    if (attempt.stopped !== "drain") {
      this.#discard(attempt.order, false);
      return;
    }
    const { node, boot } = this.#identity;
    const key = keyOf(attempt.order);
    this.#repeater.add(
      async () => {
        // Should this run end before the scheduler answers, the next one hands it back as no loss.
        await this.#ports.journal.release(key);
        await this.#ports.handBack({ node, boot }, [key], "drain");
      },
      () => this.#discard(key, false),
    );
  }

  #complete(attempt: HeldAttempt, result: JobResult): void {
    attempt.phase = "settling";
    const key = keyOf(attempt.order);
    this.#repeater.add(
      () => this.#ports.complete(key, result),
      (answer) => {
        if (answer === "taken") this.#settled(attempt);
        else if (answer === "fenced") this.#discard(key, false);
        else this.#fail(attempt, answer.invalid, false);
      },
    );
  }

  #fail(attempt: HeldAttempt, error: JobError, retryable: boolean): void {
    attempt.phase = "settling";
    const key = keyOf(attempt.order);
    this.#repeater.add(
      () => this.#ports.fail(key, error, retryable),
      () => this.#discard(key, false),
    );
  }

  /** Deletes the output of an attempt that lost, or of one whose fate this run does not know. */
  #discard(key: AttemptKey, mayBeCommitted: boolean): void {
    this.#repeater.add(
      async () => {
        if (mayBeCommitted && (await this.#ports.isCommitted(key))) return;
        await this.#ports.discardOutput(key);
      },
      (answer) => {
        if (answer instanceof Error)
          this.#ports.log("warn", `output of ${keyText(key)} is left behind: ${answer.message}`);
        this.#settled({ order: key });
      },
      this.#limits.discardTriesMax,
    );
  }

  #settled({ order }: { order: AttemptKey }): void {
    // Losing this line only makes the next start look at an attempt that is over.
    this.#ports.journal.remove(keyOf(order)).catch((error: Error) => {
      this.#ports.log("warn", `the node's journal: ${error.message}`);
    });
    const attempt = this.#held.get(keyText(order));
    if (attempt) this.#drop(attempt);
  }

  #drop(attempt: HeldAttempt): void {
    this.#held.delete(keyText(attempt.order));
    // What the scheduler does not know yet is a slot that a kill has freed.
    if (attempt.stopped) this.#beatNow();
    this.#rearm();
  }

  /** Attempts whose lease this node wants to keep. */
  #reportable(): HeldAttempt[] {
    return [...this.#held.values()].filter(
      (attempt) =>
        attempt.phase !== "accepting" && (!attempt.stopped || attempt.stopped === "drain"),
    );
  }

  #beatNow(): void {
    this.#pacer.atOnce(this.#ports.nowMonotonic());
    this.#rearm();
  }

  #beat(sentAt: Ms): void {
    this.#pacer.sent(sentAt);
    const sent = this.#reportable();
    const attempts: AttemptReport[] = sent.map(({ order, progress, stage }) => ({
      ...keyOf(order),
      progress,
      stage,
    }));
    this.#ports
      .heartbeat(attempts, this.#draining)
      .then(
        (answer) => {
          this.#pacer.answered();
          this.#heed(sent, answer, sentAt);
        },
        () => this.#pacer.unanswered(this.#ports.nowMonotonic()),
      )
      .finally(() => this.#rearm());
  }

  /** Leases count from when the heartbeat was sent: so the node lets go before the scheduler does. */
  #heed(sent: readonly HeldAttempt[], answer: HeartbeatAnswer, sentAt: Ms): void {
    const renewed = new Map(answer.renewed.map((entry) => [keyText(entry), entry.leaseMs]));
    for (const attempt of sent) {
      const leaseMs = renewed.get(keyText(attempt.order));
      if (leaseMs === undefined) this.#stop(attempt, "fenced");
      else attempt.leaseUntil = sentAt + Math.min(leaseMs, this.#limits.leaseMsMax);
    }
  }

  #rearm(): void {
    if (this.#waiters.length > 0) {
      const met = this.#waiters.filter(({ holds }) => holds());
      this.#waiters = this.#waiters.filter((waiter) => !met.includes(waiter));
      for (const { resolve } of met) resolve();
    }
    this.#ports.wakeAt(this.nextWakeAt);
  }
}

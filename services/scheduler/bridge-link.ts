import { asAppError } from "../../lib/errors.ts";
import type {
  AttemptAnswer,
  AttemptOrder,
  AttemptQuery,
  AttemptView,
  BridgeAnswer,
  BridgeStatus,
  CancelAttempt,
  Question,
  StatusQuery,
} from "../compose/standalone/bridge-wire.ts";
import { type BridgeLimits, bridgeLimits, schedulerConfig } from "./config.ts";
import type {
  HeartbeatAnswer,
  JobError,
  JobResult,
  Ms,
  NodeReport,
  StartOrder,
} from "./job.types.ts";
import type { Leader, LeaderPorts } from "./leader.ts";

/** The requests that a bridge answers. A rejection says nothing about what has happened there. */
export interface BridgeCalls {
  status(query: StatusQuery): Promise<BridgeStatus>;
  begin(order: AttemptOrder): Promise<BeginOutcome>;
  attempt(query: AttemptQuery): Promise<AttemptView>;
  answer(answer: BridgeAnswer): Promise<unknown>;
  cancel(ref: CancelAttempt): Promise<unknown>;
}
type BeginOutcome = Awaited<ReturnType<LeaderPorts["begin"]>>;

interface AttemptKey {
  jobId: string;
  attempt: number;
}

/** A file on its way into storage; `md5` in base64. */
interface Output {
  name: string;
  bytes: number;
  md5: string;
}

export interface LinkPorts {
  calls: BridgeCalls;
  leader: Pick<Leader, "heartbeat" | "complete" | "fail" | "handBack" | "get" | "addLog">;
  /** Of a clock that never jumps: with a wrong one, leases would go unrenewed. */
  now(): Ms;
  /** Puts the objects that a task names into links. Rejects when that cannot be done now: nothing was sent then. */
  prepare(order: StartOrder): Promise<AttemptOrder>;
  /** What is wrong with a result that a bridge claims; rejects when that cannot be told now. */
  check(key: AttemptKey, result: JobResult): Promise<JobError | undefined>;
  /** A signed link that takes one output of the attempt. */
  uploadLink(key: AttemptKey, output: Output): Promise<string>;
  /** Deletes whatever the attempt has uploaded. */
  discardOutput(key: AttemptKey): Promise<unknown>;
  log(level: "info" | "warn" | "error", text: string): void;
  /** `nextWakeAt` may be earlier than it was. */
  rearm(): void;
}

/**
 * Makes one bridge outside the mesh look like a compose node to the leader: asks how it is, passes that on as its
 * heartbeat, renews its leases with the next request, and carries its questions to the leader and the answers back.
 * A lease counts from a mark that the bridge set before the leader renewed it, so that the bridge lets go first,
 * however late a message comes. Without I/O of its own: the simulation runs this very class.
 */
export class BridgeLink {
  readonly name: string;
  readonly #ports: LinkPorts;
  readonly #limits: BridgeLimits;
  /** Questions that are being answered. */
  readonly #busy = new Set<string>();
  #nextAt: Ms;
  #inRound = false;
  #failures = 0;
  #isBusy = false;
  /** How many questions the bridge had asked when it was heard last. */
  #asked: number | undefined;
  /** What the leader was told last, and when. */
  #told = "";
  #beatAt: Ms = Number.NEGATIVE_INFINITY;
  #state = "";
  #closed = false;

  constructor(name: string, ports: LinkPorts, limits: BridgeLimits = bridgeLimits) {
    this.name = name;
    this.#ports = ports;
    this.#limits = limits;
    this.#nextAt = ports.now();
  }

  get nextWakeAt(): Ms {
    return this.#inRound || this.#closed ? Number.POSITIVE_INFINITY : this.#nextAt;
  }

  tick(now: Ms): void {
    if (now >= this.nextWakeAt) void this.#round();
  }

  close(): void {
    this.#closed = true;
  }

  // --- What the leader says ---

  async begin(order: StartOrder): Promise<BeginOutcome> {
    let prepared: AttemptOrder;
    try {
      prepared = await this.#ports.prepare(order);
    } catch (error) {
      return { outcome: "refused", reason: `its order cannot be made: ${textOf(error)}` };
    }
    const answer = await this.#ports.calls.begin(prepared);
    this.#soon(this.#limits.betweenMs);
    return answer;
  }

  halt({ jobId, attempt, reason }: AttemptKey & { reason: string }): Promise<unknown> {
    return this.#ports.calls.cancel({ job_id: jobId, attempt, reason });
  }

  async probe(): Promise<{ boot: string }> {
    const { boot } = await this.#ports.calls.status({ wait_ms: 0 });
    return { boot };
  }

  // --- What the bridge says ---

  #soon(inMs: Ms): void {
    this.#nextAt = Math.min(this.#nextAt, this.#ports.now() + inMs);
    this.#ports.rearm();
  }

  async #round(): Promise<void> {
    this.#inRound = true;
    this.#nextAt = Number.POSITIVE_INFINITY;
    const { idleMs, betweenMs, retryMsMin, retryMsMax } = this.#limits;
    let pauseMs: Ms;
    try {
      const isBusy = await this.#exchange();
      this.#failures = 0;
      this.#note("info", "is there");
      // While there is work, the bridge itself waits with its answer until there is something to tell.
      this.#isBusy = isBusy;
      pauseMs = isBusy ? betweenMs : idleMs;
    } catch (error) {
      pauseMs = Math.min(retryMsMax, retryMsMin * 2 ** Math.min(this.#failures, 10));
      this.#failures += 1;
      this.#asked = undefined;
      this.#note("warn", `cannot be used: ${textOf(error)}`);
    }
    this.#inRound = false;
    this.#soon(pauseMs);
  }

  /** Says when something has changed, not each time. */
  #note(level: "info" | "warn", text: string): void {
    if (this.#closed || text === this.#state) return;
    this.#state = text;
    this.#ports.log(level, `${this.name} ${text}`);
  }

  /** @returns whether the bridge has anything to do. */
  async #exchange(): Promise<boolean> {
    const waitMs = this.#isBusy && this.#asked !== undefined ? this.#limits.busyMs : 0;
    const status = await this.#ports.calls.status({ asked: this.#asked, wait_ms: waitMs });
    this.#asked = status.asked;
    const { boot, attempts, questions } = status;
    // Before anything that tells the leader of a new run: what is handed back is no lost node.
    const returns = questions.filter((one) => one.type === "handBack");
    await Promise.all(returns.map((one) => this.#settle(status.boot, one)));
    if (this.#hasNews(status)) await this.#beat(status);
    if (this.#closed) return false;
    for (const one of questions) if (one.type !== "handBack") this.#answerSoon(boot, one);
    return attempts.length > 0 || questions.length > 0;
  }

  /** A renewal is a write: where nothing has changed, the leader hears of a bridge no more often than of a node. */
  #hasNews({ boot, draining, slots, attempts }: BridgeStatus): boolean {
    const now = this.#ports.now();
    const text = JSON.stringify([boot, draining, slots, attempts]);
    const { heartbeatMs } = schedulerConfig;
    const isDue = now - this.#beatAt > heartbeatMs - this.#limits.busyMs || now < this.#beatAt;
    if (!isDue && text === this.#told) return false;
    this.#told = text;
    this.#beatAt = now;
    return true;
  }

  async #beat(status: BridgeStatus): Promise<void> {
    const { calls, leader } = this.#ports;
    const { boot, mark, attempts } = status;
    let heard: HeartbeatAnswer;
    try {
      heard = await leader.heartbeat(this.#reportOf(status), attempts);
    } catch (error) {
      this.#told = "";
      throw error;
    }
    if (this.#closed) return;
    const renewals = heard.renewed.map(({ jobId, attempt, leaseMs }) =>
      calls.attempt({ job_id: jobId, attempt, boot, mark, lease_ms: leaseMs }),
    );
    const ends = heard.fenced.map(({ jobId, attempt, reason }) =>
      calls.cancel({ job_id: jobId, attempt, reason }),
    );
    const heardThere = await Promise.allSettled([...renewals, ...ends]);
    // A lost one is repeated by the next round.
    if (heardThere.some(({ status: outcome }) => outcome === "rejected")) this.#told = "";
  }

  #reportOf(status: BridgeStatus): NodeReport {
    const { boot, beat, kinds, slots, cpuPercent, memoryPercent, gpu, draining } = status;
    return { node: this.name, boot, beat, kinds, slots, cpuPercent, memoryPercent, gpu, draining };
  }

  #answerSoon(boot: string, question: Question): void {
    const id = `${boot} ${question.id}`;
    if (this.#busy.has(id)) return;
    this.#busy.add(id);
    this.#settle(boot, question)
      .then(
        // What follows from an answer, a free slot or another question, is there at once.
        () => this.#soon(this.#limits.betweenMs),
        // Left open: the next round finds it again.
        (error) => this.#ports.log("info", `${this.name}: ${question.type}: ${textOf(error)}`),
      )
      .finally(() => this.#busy.delete(id));
  }

  async #settle(boot: string, question: Question): Promise<void> {
    if (this.#closed) throw new Error("this scheduler leads no more");
    const said = await this.#answerTo(boot, question);
    await this.#ports.calls.answer({ ...said, boot, id: question.id });
  }

  async #answerTo(
    boot: string,
    question: Question,
  ): Promise<Omit<BridgeAnswer, "boot" | "id"> | undefined> {
    const { leader } = this.#ports;
    switch (question.type) {
      case "complete":
        return this.#complete(boot, question);
      case "fail":
        return this.#fail(boot, question);
      case "handBack": {
        const { boot: holder, attempts, cause } = question;
        await leader.handBack({ node: this.name, boot: holder, attempts, cause });
        return undefined;
      }
      case "isCommitted":
        return { committed: await this.#isCommitted(question) };
      case "discardOutput":
        // A wrong or late request must not take the result that was committed.
        if (!(await this.#isCommitted(question))) await this.#ports.discardOutput(question);
        return undefined;
      case "uploadLink":
        return this.#uploadLink(question);
      case "addLog": {
        const { log = [] } = await this.#view(boot, question);
        await leader.addLog(question.jobId, question.attempt, log);
        return undefined;
      }
      default:
        throw new Error(`unknown question ${JSON.stringify(question satisfies never)}`);
    }
  }

  async #view(boot: string, { jobId, attempt }: AttemptKey): Promise<AttemptView> {
    const view = await this.#ports.calls.attempt({ job_id: jobId, attempt });
    if (view.boot !== boot || view.job_id !== jobId || view.attempt !== attempt)
      throw new Error("the bridge answered for another attempt or run");
    return view;
  }

  async #complete(boot: string, { jobId, attempt }: AttemptKey) {
    const { result } = await this.#view(boot, { jobId, attempt });
    if (!result) throw new Error("the result is not there any more");
    const invalid = await this.#ports.check({ jobId, attempt }, result);
    if (invalid) return { word: { invalid } };
    const ref = { jobId, attempt, node: this.name, boot };
    const { outcome } = await this.#ports.leader.complete({ ...ref, result });
    return { word: outcome === "committed" ? ("taken" as const) : ("fenced" as const) };
  }

  async #fail(boot: string, { jobId, attempt }: AttemptKey) {
    const { error, retryable = true } = await this.#view(boot, { jobId, attempt });
    if (!error) throw new Error("the error is not there any more");
    const ref = { jobId, attempt, node: this.name, boot };
    const { outcome } = await this.#ports.leader.fail({ ...ref, error, retryable });
    return { word: outcome === "recorded" ? ("taken" as const) : ("fenced" as const) };
  }

  async #isCommitted({ jobId, attempt }: AttemptKey): Promise<boolean> {
    const job = await this.#jobOf(jobId);
    return job?.state === "success" && job.attempt === attempt;
  }

  async #jobOf(jobId: string) {
    try {
      return await this.#ports.leader.get(jobId);
    } catch (error) {
      if (asAppError(error)?.type === "JOB_NOT_FOUND") return undefined;
      throw error;
    }
  }

  /** Only the attempt that holds the lease gets one: what came back late has nothing to store. */
  async #uploadLink(output: Question & { type: "uploadLink" }) {
    const { jobId, attempt } = output;
    const job = await this.#jobOf(jobId);
    const isCurrent = job?.state === "running" && job.attempt === attempt && job.node === this.name;
    if (!isCurrent) return { failed: "the attempt does not hold the job any more" };
    try {
      return { url: await this.#ports.uploadLink({ jobId, attempt }, output) };
    } catch (error) {
      return { failed: textOf(error) };
    }
  }
}

/** What a bridge has answered to an order, as the leader understands it. */
export function outcomeOf(order: AttemptOrder, answer: AttemptAnswer): BeginOutcome {
  if (answer.status === "refused") return { outcome: "refused", reason: answer.reason ?? "" };
  if (answer.job_id !== order.attempt.job_id || answer.attempt.number !== order.attempt.number)
    throw new Error("the bridge answered for another attempt");
  return { outcome: answer.repeated ? "duplicate" : "accepted" };
}

const textOf = (error: unknown) => (error as Error).message.slice(0, 500);

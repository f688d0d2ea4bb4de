import { AppError } from "../../../lib/errors.ts";
import type {
  AttemptReport,
  JobError,
  JobResult,
  Ms,
  NodeReport,
  StartOrder,
} from "../../scheduler/job.types.ts";
import { type StandaloneLimits, standaloneLimits } from "../config.ts";
import { keyText } from "../held-attempt.ts";
import type { LogLine } from "../log-batch.ts";
import type { BeginAnswer, NodeAgent } from "../node-agent.ts";
import type { AttemptKey, NodePorts, ReportAnswer } from "../node-ports.ts";
import type {
  AttemptQuery,
  AttemptView,
  BridgeAnswer,
  BridgeStatus,
  CancelAttempt,
  Question,
} from "./bridge-wire.ts";
import { QuestionBox } from "./question-box.ts";

type ToScheduler = Pick<
  NodePorts,
  "heartbeat" | "complete" | "fail" | "handBack" | "isCommitted" | "discardOutput"
>;

type Ended =
  | { status: "success"; result: JobResult }
  | { status: "failed"; error: JobError; retryable: boolean };

/**
 * Stands between a node agent, which calls its scheduler, and a scheduler that can only ask. What the agent says
 * becomes a question that waits to be fetched; leases are a table that polls renew. No clock, timer or socket of its
 * own: the HTTP server and the simulation drive this very class.
 */
export class AttemptDesk {
  readonly #boot: string;
  readonly #now: () => Ms;
  readonly #limits: StandaloneLimits;
  readonly #box: QuestionBox;
  /** Until when each attempt may go on, by the bridge's own clock. */
  readonly #leases = new Map<string, Ms>();
  /** Orders that are on their way into the journal: the agent does not report them yet. */
  readonly #beginning = new Set<string>();
  readonly #ended = new Map<string, Ended>();
  readonly #log = new Map<string, LogLine[]>();
  #reported = new Map<string, AttemptReport>();
  #draining = false;
  /** The agent has spoken: what an earlier run left behind is dead. */
  #isReady = false;
  #beat = 0;

  constructor(boot: string, now: () => Ms, limits: StandaloneLimits = standaloneLimits) {
    this.#boot = boot;
    this.#now = now;
    this.#limits = limits;
    this.#box = new QuestionBox(limits.questionsMax);
  }

  // --- What the agent and its executions say ---

  /** The ports through which a node agent reaches its scheduler. */
  readonly ports: ToScheduler = {
    heartbeat: async (attempts, draining) => {
      this.#isReady = true;
      this.#draining = draining;
      this.#reported = new Map(attempts.map((one) => [keyText(one), one]));
      for (const key of this.#leases.keys())
        if (!this.#reported.has(key) && !this.#beginning.has(key)) this.#leases.delete(key);
      const now = this.#now();
      // Every attempt is named: one without a renewal runs into the end of its lease, it is not fenced for that.
      const renewed = attempts.map(({ jobId, attempt }) => {
        const until = this.#leases.get(keyText({ jobId, attempt })) ?? now;
        return { jobId, attempt, leaseMs: until - now };
      });
      return { renewed, fenced: [] };
    },
    complete: (key, result) => this.#end("complete", key, { status: "success", result }),
    fail: (key, error, retryable) => this.#end("fail", key, { status: "failed", error, retryable }),
    handBack: async ({ boot }, attempts, cause) => {
      this.#isReady = true;
      const id = `handBack ${boot} ${cause} ${attempts.map(keyText).join(" ")}`.slice(0, 400);
      await this.#box.ask({ id, type: "handBack", boot, cause, attempts });
    },
    isCommitted: async (key) => {
      const { committed } = await this.#box.ask(question("isCommitted", key));
      if (committed === undefined) throw new AppError("UNAVAILABLE", { reason: "no clear answer" });
      return committed;
    },
    discardOutput: async (key) => {
      await this.#box.ask(question("discardOutput", key));
    },
  };

  async #end(type: "complete" | "fail", key: AttemptKey, ended: Ended): Promise<ReportAnswer> {
    this.#ended.set(keyText(key), ended);
    const { word } = await this.#box.ask(question(type, key));
    if (word === undefined) throw new AppError("UNAVAILABLE", { reason: "no clear answer" });
    this.#ended.delete(keyText(key));
    return word;
  }

  /**
   * A signed link that takes one output. Waits for the scheduler, which may be away; an attempt that loses its lease
   * meanwhile is given the answer that it has lost it.
   * @throws AppError UNAVAILABLE
   */
  async uploadLink(
    { jobId, attempt }: AttemptKey,
    output: { name: string; bytes: number; md5: string },
  ): Promise<string> {
    const id = `uploadLink ${jobId}/${attempt} ${output.name}`;
    const asked = this.#box.ask({ id, type: "uploadLink", jobId, attempt, ...output });
    const { url } = await asked;
    if (url === undefined)
      throw new AppError("UNAVAILABLE", { reason: "the scheduler sent no link" });
    return url;
  }

  /** Resolves when the scheduler has the lines; called for one batch of an attempt at a time. */
  async addLog(key: AttemptKey, lines: LogLine[]): Promise<void> {
    this.#log.set(keyText(key), lines);
    try {
      await this.#box.ask(question("addLog", key));
    } finally {
      this.#log.delete(keyText(key));
    }
  }

  // --- What the scheduler says ---

  /** Calls `tell` when there is a question that was not asked yet when `seen` of them were. Answers what ends that. */
  listen(seen: number, tell: () => void): () => void {
    return this.#box.listen(seen, tell);
  }

  /** @throws AppError UNAVAILABLE while orphans of an earlier run are being killed. */
  status(
    agent: NodeAgent,
    report: Omit<NodeReport, "node" | "boot" | "beat" | "draining">,
  ): BridgeStatus {
    if (!this.#isReady) throw new AppError("UNAVAILABLE", { reason: "the bridge is starting" });
    this.#beat += 1;
    const attempts = agent.probe().attempts.map((key) => {
      const { progress = 0, stage } = this.#reported.get(keyText(key)) ?? {};
      return { ...key, progress, stage };
    });
    return {
      ...report,
      protocol: 1,
      boot: this.#boot,
      beat: this.#beat,
      asked: this.#box.asked,
      mark: this.#now(),
      draining: this.#draining,
      attempts,
      questions: this.#box.list(),
    };
  }

  /** Questions that wait for the scheduler's answer. */
  get questions(): number {
    return this.#box.list().length;
  }

  /** Attempts of the scheduler that take a slot. */
  taken(agent: NodeAgent): number {
    return agent.probe().attempts.length + this.#beginning.size;
  }

  /** Nothing runs here for a scheduler and nothing waits for its answer. */
  isFree(agent: NodeAgent): boolean {
    return this.taken(agent) === 0 && agent.isEmpty && this.#box.list().length === 0;
  }

  async begin(agent: NodeAgent, order: StartOrder): Promise<BeginAnswer> {
    if (!this.#isReady) return { outcome: "refused", reason: "the bridge is starting" };
    const key = keyText(order);
    const isNew = !this.#leases.has(key);
    // Before the agent's next look at the table; a repeated order renews nothing.
    if (!isNew) return agent.begin(order);
    this.#leases.set(key, this.#now() + order.leaseMs);
    this.#beginning.add(key);
    try {
      const answer = await agent.begin(order);
      if (answer.outcome !== "accepted") this.#leases.delete(key);
      return answer;
    } finally {
      this.#beginning.delete(key);
    }
  }

  /** State of an attempt. With the mark of a status that the scheduler has renewed, its lease goes on from there. */
  attempt(agent: NodeAgent, query: AttemptQuery): AttemptView {
    const key = { jobId: query.job_id, attempt: query.attempt };
    const text = keyText(key);
    const renewed = this.#renew(text, query);
    const { progress = 0, stage } = this.#reported.get(text) ?? {};
    const isHeld = agent.probe().attempts.some((held) => keyText(held) === text);
    const ended = this.#ended.get(text);
    return {
      job_id: key.jobId,
      attempt: key.attempt,
      boot: this.#boot,
      renewed,
      progress: ended?.status === "success" ? 1 : progress,
      stage,
      log: this.#log.get(text),
      ...(ended ?? { status: isHeld ? ("running" as const) : ("unknown" as const) }),
    };
  }

  #renew(key: string, { boot, mark, lease_ms: leaseMs }: AttemptQuery): boolean {
    const until = this.#leases.get(key);
    if (until === undefined || boot !== this.#boot || mark === undefined || leaseMs === undefined)
      return false;
    const now = this.#now();
    if (mark > now || now - mark > this.#limits.renewalMsMax) return false;
    this.#leases.set(key, Math.max(until, mark + leaseMs));
    return true;
  }

  cancel(agent: NodeAgent, { job_id: jobId, attempt, reason }: CancelAttempt): { held: boolean } {
    return agent.halt({ jobId, attempt }, reason);
  }

  answer(answer: BridgeAnswer): void {
    if (answer.boot === this.#boot) this.#box.answer(answer);
  }
}

type Plain = "complete" | "fail" | "isCommitted" | "discardOutput" | "addLog";

const question = (type: Plain, { jobId, attempt }: AttemptKey): Question => ({
  id: `${type} ${jobId}/${attempt}`,
  type,
  jobId,
  attempt,
});

import { join } from "node:path";
import type { Logger } from "moleculer";
import type { z } from "zod";
import type { Config } from "../../../lib/config.ts";
import { AppError } from "../../../lib/errors.ts";
import { outputPrefix } from "../../../lib/job-output-key.ts";
import { restoreUrls } from "../../../lib/restore-urls.ts";
import { schedulerConfig } from "../../scheduler/config.ts";
import { checkPayload } from "../../scheduler/job-kinds.ts";
import { Leader } from "../../scheduler/leader.ts";
import { SqliteJobStore } from "../../scheduler/sqlite-job-store.ts";
import { WakeTimer } from "../../scheduler/wake-timer.ts";
import { answerFor, type JobAnswer } from "../bridge.answer.ts";
import { checkComposition, checkTimeline } from "../bridge.check.ts";
import { type Accepted, ComposeTask, EnhanceTask, TimelineTask } from "../bridge.contract.ts";
import { namedSources } from "../bridge.sources.ts";
import { executionLimits, nodeLimits, standaloneLimits } from "../config.ts";
import { LoadMeter } from "../load-report.ts";
import { checkSources } from "../media/check-sources.ts";
import type { BeginAnswer } from "../node-agent.ts";
import { directAccess } from "../object-access.ts";
import { BridgeNode, type BridgeNodeOptions } from "./bridge-node.ts";
import { LocalObjects } from "./local-objects.ts";

const node = "bridge";
const owner = "bridge:plain";

/** The documented tasks, each with its check of what can be known at once. */
const tasks = {
  timeline: { schema: TimelineTask, check: checkTimeline },
  compose: { schema: ComposeTask, check: checkComposition },
  enhance: { schema: EnhanceTask, check: () => undefined },
} as const;
type PlainKind = keyof typeof tasks;

export const isPlainKind = (kind: string): kind is PlainKind => Object.hasOwn(tasks, kind);

type PlainTask = z.output<typeof TimelineTask | typeof ComposeTask | typeof EnhanceTask>;
export const schemaOf = (kind: PlainKind) => tasks[kind].schema as z.ZodType<PlainTask>;

interface PlainOptions {
  config: Config;
  log: Logger;
  boot: string;
  baseUrl: string;
  /** Slots that no scheduler outside takes at the moment. */
  slots(): number;
  /** Follow the attempts of the whole bridge. */
  watch: BridgeNodeOptions["watch"];
  meter: BridgeNodeOptions["meter"];
}

/**
 * The bridge as its document has it, for anybody with the token: a task is accepted, queued, done here, and its job
 * answers the link to its output. The queue is the product's own scheduler on a file of this machine.
 */
export class PlainJobs {
  readonly #options: PlainOptions;
  readonly #store: SqliteJobStore;
  readonly #objects: LocalObjects;
  readonly #meter = new LoadMeter(executionLimits);
  readonly #timer: WakeTimer;
  #leader: Leader | undefined;
  #node: BridgeNode | undefined;
  #beat = 0;
  /** Orders on their way into the journal. */
  #beginning = 0;

  private constructor(options: PlainOptions, store: SqliteJobStore, objects: LocalObjects) {
    this.#options = options;
    this.#store = store;
    this.#objects = objects;
    this.#timer = new WakeTimer((error) => options.log.error("tick failed", error));
  }

  static async open(options: PlainOptions): Promise<PlainJobs> {
    const { config, baseUrl } = options;
    const objects = await LocalObjects.open(config, baseUrl);
    const store = await SqliteJobStore.open(join(config.DATA_DIR, "plain.sqlite"), {
      exclusive: true,
    });
    const plain = new PlainJobs(options, store, objects);
    await plain.#start();
    return plain;
  }

  async #start(): Promise<void> {
    const { config, log, boot, watch, meter } = this.#options;
    const seen = await this.#store.leadership();
    const { term } = (await this.#store.takeOver(seen, boot)) ?? seen;
    const limits = { ...schedulerConfig, pendingMax: standaloneLimits.plainPendingMax };
    const leader = await Leader.open(
      {
        store: this.#store,
        term,
        // The file is open to no other process.
        holdsLease: () => true,
        deposed: () => log.error("another process has written to the queue of this bridge"),
        now: Date.now,
        random: Math.random,
        begin: (_node, order) => this.#begin(order),
        halt: async (_node, ref) => this.#node?.agent.halt(ref, ref.reason),
        deliver: async () => undefined,
        log: (level, text) => log[level](text),
        rearm: () => this.#timer.rearm(),
      },
      limits,
    );
    this.#leader = leader;
    this.#timer.start(leader);
    this.#node = await BridgeNode.open({
      config,
      log,
      boot,
      kinds: Object.keys(tasks),
      limits: nodeLimits,
      folder: "plain",
      watch,
      meter,
      scheduler: this.#toLeader(leader),
      attemptHost: () => ({
        config,
        logger: log,
        addresses: async () => this.#objects.addresses,
        objects: () => directAccess({ call: this.#objects.call }),
        addLog: ({ jobId, attempt }, lines) => leader.addLog(jobId, attempt, lines),
      }),
    });
  }

  async #begin(order: Parameters<BridgeNode["agent"]["begin"]>[0]): Promise<BeginAnswer> {
    const agent = this.#node?.agent;
    if (!agent) return { outcome: "refused", reason: "the bridge is starting" };
    const isHeld = agent.probe().attempts.some(({ jobId }) => jobId === order.jobId);
    if (!isHeld && this.taken >= this.#options.slots())
      return { outcome: "refused", reason: "no free slot" };
    this.#beginning += 1;
    try {
      return await agent.begin(order);
    } finally {
      this.#beginning -= 1;
    }
  }

  #toLeader(leader: Leader) {
    const { boot, slots } = this.#options;
    return {
      heartbeat: async (attempts: Parameters<Leader["heartbeat"]>[1], draining: boolean) => {
        const load = await this.#meter.read();
        this.#beat += 1;
        const kinds = Object.keys(tasks);
        const report = { node, boot, beat: this.#beat, kinds, slots: slots(), draining, ...load };
        return leader.heartbeat(report, attempts);
      },
      complete: async (key: Attempt, result: Parameters<Leader["complete"]>[0]["result"]) => {
        const { outcome } = await leader.complete({ ...key, node, boot, result });
        return outcome === "committed" ? ("taken" as const) : ("fenced" as const);
      },
      fail: async (
        key: Attempt,
        error: Parameters<Leader["fail"]>[0]["error"],
        retryable: boolean,
      ) => {
        const { outcome } = await leader.fail({ ...key, node, boot, error, retryable });
        return outcome === "recorded" ? ("taken" as const) : ("fenced" as const);
      },
      handBack: async (
        holder: { node: string; boot: string },
        attempts: Attempt[],
        cause: "drain" | "restart",
      ) => void (await leader.handBack({ ...holder, attempts, cause })),
      isCommitted: async ({ jobId, attempt }: Attempt) => {
        const job = await this.#store.get(jobId);
        return job?.state === "success" && job.history.attempt === attempt;
      },
      discardOutput: (key: Attempt) => this.#objects.removeAttempt(outputPrefix(key)),
    };
  }

  /** Slots that this queue takes. */
  get taken(): number {
    return (this.#node?.agent.probe().attempts.length ?? 0) + this.#beginning;
  }

  /** @throws AppError INVALID_INPUT, TIMELINE_INVALID, MEDIA_UNREADABLE, QUEUE_FULL, IDEMPOTENCY_MISMATCH */
  async submit(
    kind: PlainKind,
    body: PlainTask,
    headerKey: string | undefined,
  ): Promise<z.output<typeof Accepted>> {
    const { idempotency_key, priority, run_id, ...work } = restoreUrls(body);
    if (run_id !== undefined)
      throw new AppError("INVALID_INPUT", {
        reason: "run_id: this bridge knows no agent runs; leave it out",
        issues: [{ path: "run_id", message: "unknown here" }],
      });
    tasks[kind].check(work as never);
    const { config } = this.#options;
    await checkSources(namedSources(work), config, this.#objects.call);
    const job = await this.#leads.submit({
      kind,
      payload: checkPayload(kind, work),
      owner,
      priority,
      idempotencyKey: idempotency_key ?? headerKey,
      queue: "default",
      delayMs: 0,
      attemptsMax: 3,
      backoffMs: 2_000,
      timeoutMs: 3_600_000,
      stallMs: 300_000,
      requires: {},
    });
    return { job_id: job.id, status: job.state, repeated: job.repeated };
  }

  /** @throws AppError JOB_NOT_FOUND */
  async job(id: string): Promise<JobAnswer> {
    return answerFor(await this.#leads.get(id), this.#objects.call);
  }

  /** @throws AppError JOB_NOT_FOUND, JOB_ENDED */
  async cancel(id: string): Promise<JobAnswer> {
    return answerFor(await this.#leads.cancel(id), this.#objects.call);
  }

  get objects(): LocalObjects {
    return this.#objects;
  }

  get #leads(): Leader {
    if (!this.#leader) throw new AppError("UNAVAILABLE", { reason: "the bridge is starting" });
    return this.#leader;
  }

  async stop(): Promise<void> {
    await this.#node?.stop(executionLimits.handBackMsMax);
    this.#timer.stop();
    this.#leader?.close();
    await this.#store.close();
    await this.#objects.close();
  }
}

interface Attempt {
  jobId: string;
  attempt: number;
}

import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "moleculer";
import type { Config } from "../../../lib/config.ts";
import { outputPrefix } from "../../../lib/job-output-key.ts";
import { outsideWork } from "../../../lib/telemetry/work-scope.ts";
import type { StartOrder } from "../../scheduler/job.types.ts";
import type { AttemptHost } from "../attempt-host.ts";
import type { AttemptWatch } from "../attempt-watch.ts";
import { executionLimits, type NodeLimits } from "../config.ts";
import { runAttempt } from "../execution.ts";
import { workDirOf } from "../executor-tools.ts";
import { executors } from "../executors.ts";
import type { StopCause } from "../held-attempt.ts";
import { NodeAgent } from "../node-agent.ts";
import { FileJournal } from "../node-journal.ts";
import type { AttemptKey, NodePorts, ReportAnswer } from "../node-ports.ts";
import { killLeftovers } from "../process-group.ts";
import type { BridgeMeter } from "./bridge-meter.ts";

const timerMsMax = 60_000;

/** What is different between a node that serves a scheduler outside and one that serves this bridge's own queue. */
export interface BridgeNodeOptions {
  config: Config;
  log: Pick<Logger, "info" | "warn" | "error">;
  boot: string;
  kinds: readonly string[];
  limits: NodeLimits;
  /** Folder of the journal. */
  folder: string;
  scheduler: Pick<
    NodePorts,
    "heartbeat" | "complete" | "fail" | "handBack" | "isCommitted" | "discardOutput"
  >;
  attemptHost(order: StartOrder): AttemptHost;
  /** Follows the attempts of the whole bridge. */
  watch: Pick<AttemptWatch, "run">;
  meter: BridgeMeter;
  /** The execution is over, whatever came of it. */
  ended?(order: StartOrder): void;
}

/** A node agent with the journal, the processes and the timer of this machine, and no broker. */
export class BridgeNode {
  readonly agent: NodeAgent;
  readonly #options: BridgeNodeOptions;
  readonly #journal: FileJournal;
  /** Attempts of this run that have not begun to store anything: there is nothing to delete. */
  readonly #nothingStored = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  private constructor(options: BridgeNodeOptions, journal: FileJournal) {
    const { boot, config, kinds, limits } = options;
    this.#options = options;
    this.#journal = journal;
    const identity = { node: "bridge", boot, slots: config.RENDER_SLOTS, kinds };
    this.agent = new NodeAgent(identity, this.#ports(), limits);
  }

  /** Resolves when what an earlier run left running is dead. */
  static async open(options: BridgeNodeOptions): Promise<BridgeNode> {
    const directory = join(options.config.DATA_DIR, options.folder);
    const journal = await FileJournal.open(directory, executionLimits.journalLinesMax);
    const node = new BridgeNode(options, journal);
    await node.agent.recover();
    return node;
  }

  /** Running work is stopped and handed back, or noted for the next start. */
  async stop(handBackMsMax: number): Promise<void> {
    const drained = this.agent.drain(0);
    await within(executionLimits.stopMsMax, this.agent.whenQuiet());
    await within(handBackMsMax, drained);
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#journal.close();
  }

  #ports(): NodePorts {
    const { config, log, meter, scheduler } = this.#options;
    const counted = (answer: ReportAnswer) => {
      if (answer === "fenced") meter.reportFenced();
      return answer;
    };
    return {
      ...scheduler,
      complete: (...report) => scheduler.complete(...report).then(counted),
      fail: (...report) => scheduler.fail(...report).then(counted),
      nowMonotonic: () => performance.now(),
      journal: this.#journal,
      execute: this.#execute.bind(this),
      killOrphan: async (entry) => {
        await killLeftovers(entry.processes, this.#markOf(entry), executionLimits.killGraceMs);
        await rm(workDirOf(config.DATA_DIR, entry), { recursive: true, force: true });
      },
      discardOutput: async (key) => {
        if (!this.#nothingStored.delete(outputPrefix(key))) await scheduler.discardOutput(key);
      },
      log: (level, text) => log[level](text),
      wakeAt: (at) => {
        clearTimeout(this.#timer);
        if (this.#stopped) return;
        const inMs = Math.min(timerMsMax, Math.max(0, at - performance.now()));
        // The timer is for the whole node, whichever attempt has it armed.
        const tick = () => this.agent.tick(performance.now());
        this.#timer = outsideWork(() => setTimeout(tick, Math.ceil(inMs)));
      },
    };
  }

  /** The mark of an attempt's processes; the same whichever run of the bridge looks for it. */
  #markOf({ jobId, attempt }: AttemptKey): string {
    return `${this.#options.config.DATA_DIR}:${jobId}:${attempt}`;
  }

  async #execute(
    order: StartOrder,
    signal: AbortSignal,
    report: (progress: number, stage?: string) => void,
  ) {
    const prefix = outputPrefix(order);
    this.#nothingStored.add(prefix);
    const context = {
      host: this.#options.attemptHost(order),
      executors,
      journal: this.#journal,
      limits: executionLimits,
      mark: this.#markOf(order),
      uploading: () => this.#nothingStored.delete(prefix),
    };
    const { watch, meter } = this.#options;
    try {
      const outcome = await watch.run(order, () => runAttempt(context, order, signal, report));
      if (outcome.ok) this.#nothingStored.delete(prefix);
      meter.attemptEnded(outcome.ok ? "success" : signal.aborted ? causeOf(signal) : "failed");
      return outcome;
    } finally {
      this.#options.ended?.(order);
    }
  }
}

/** Why the node stopped an attempt. */
const causeOf = (signal: AbortSignal) => (signal.reason as { message: StopCause }).message;

async function within(boundMs: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, boundMs);
  });
  await Promise.race([work, bound]);
  clearTimeout(timer);
}

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { asAppError, errorMessage, errorTable } from "../../lib/errors.ts";
import { outputPrefix } from "../../lib/job-output-key.ts";
import { implementService, type ServiceHost } from "../../lib/service.ts";
import { outsideWork } from "../../lib/telemetry/work-scope.ts";
import { newJobId } from "../scheduler/job-id.ts";
import { canCall, meshHost } from "./attempt-host.ts";
import { AttemptWatch } from "./attempt-watch.ts";
import { composeContract } from "./compose.contract.ts";
import { executionLimits, nodeLimits } from "./config.ts";
import { runAttempt } from "./execution.ts";
import { workDirOf } from "./executor-tools.ts";
import { executors } from "./executors.ts";
import { LoadMeter } from "./load-report.ts";
import { NodeAgent } from "./node-agent.ts";
import { FileJournal } from "./node-journal.ts";
import type { NodePorts, ReportAnswer } from "./node-ports.ts";
import { killLeftovers } from "./process-group.ts";

interface NodeState {
  agent: NodeAgent;
  journal: FileJournal;
  timer?: NodeJS.Timeout;
  /** When the timer goes off; endless while there is none. */
  timerAt: number;
  stopped: boolean;
}

const timerMsMax = 60_000;

/** The mark of an attempt's processes; the same whichever run of the node looks for it. */
const markOf = (dataDir: string, key: { jobId: string; attempt: number }) =>
  `${dataDir}:${key.jobId}:${key.attempt}`;

/** An error that the same report would meet again: repeating it is no use. */
function finalAnswer(error: unknown): ReportAnswer {
  const known = asAppError(error);
  if (!known || errorTable[known.type].retry !== "never") throw error;
  const { type, data } = known;
  if (type === "JOB_NOT_FOUND") return "fenced";
  return { invalid: { type, data, message: errorMessage(type, data) } };
}

/** Connects the agent to the mesh, the disk and the processes of this machine. */
function portsOf(
  host: ServiceHost,
  identity: { node: string; boot: string; slots: number; kinds: string[] },
  state: NodeState,
): NodePorts {
  const { DATA_DIR } = host.config;
  const { node, boot, slots, kinds } = identity;
  const { journal } = state;
  const attemptHost = meshHost(host, executionLimits);
  const meter = new LoadMeter(executionLimits);
  const watch = new AttemptWatch(host, node);
  const timeout = executionLimits.callMs;
  /** Attempts of this run that have not begun to store anything: there is nothing to delete. */
  const nothingStored = new Set<string>();
  let beat = 0;
  return {
    nowMonotonic: () => performance.now(),
    journal,
    async execute(order, signal, report) {
      const key = outputPrefix(order);
      nothingStored.add(key);
      const mark = markOf(DATA_DIR, order);
      const uploading = () => nothingStored.delete(key);
      const limits = executionLimits;
      const context = { host: attemptHost, executors, journal, limits, mark, uploading };
      const outcome = await watch.run(order, () => runAttempt(context, order, signal, report));
      if (outcome.ok) nothingStored.delete(key);
      return outcome;
    },
    async killOrphan(entry) {
      await killLeftovers(entry.processes, markOf(DATA_DIR, entry), executionLimits.killGraceMs);
      await rm(workDirOf(DATA_DIR, entry), { recursive: true, force: true });
    },
    async discardOutput(key) {
      const prefix = outputPrefix(key);
      if (nothingStored.delete(prefix)) return;
      const { bucket } = await host.call("storage.addresses", {}, { timeout });
      await host.call("storage.removePrefix", { bucket, prefix }, { timeout });
    },
    async isCommitted({ jobId, attempt }) {
      try {
        const job = await host.call("scheduler.get", { id: jobId }, { timeout });
        return job.state === "success" && job.attempt === attempt;
      } catch (error) {
        if (asAppError(error)?.type === "JOB_NOT_FOUND") return false;
        throw error;
      }
    },
    async heartbeat(attempts, draining) {
      // Calling what is not there makes the broker warn each time; before the scheduler is up that is no news.
      if (!canCall(host, "scheduler.heartbeat")) throw new Error("no scheduler is known");
      const load = await meter.read();
      beat += 1;
      const report = { node, boot, beat, kinds, slots, draining, ...load };
      return host.call("scheduler.heartbeat", { report, attempts }, { timeout });
    },
    complete: (key, result) =>
      watch
        .within(key, () =>
          host.call("scheduler.complete", { ...key, node, boot, result }, { timeout }),
        )
        .then(({ outcome }): ReportAnswer => (outcome === "committed" ? "taken" : "fenced"))
        .catch(finalAnswer),
    fail: (key, error, retryable) =>
      watch
        .within(key, () =>
          host.call("scheduler.fail", { ...key, node, boot, error, retryable }, { timeout }),
        )
        .then(({ outcome }): ReportAnswer => (outcome === "recorded" ? "taken" : "fenced"))
        .catch(finalAnswer),
    async handBack(holder, attempts, cause) {
      const { node, boot } = holder;
      await host.call("scheduler.handBack", { node, boot, attempts, cause }, { timeout });
    },
    log: (level, text) => host.logger[level](text),
    wakeAt(at) {
      // Waking too early does no harm: a timer is set anew only to go off sooner, not with each step of each attempt.
      if (state.stopped || at >= state.timerAt) return;
      clearTimeout(state.timer);
      const now = performance.now();
      const inMs = Math.min(timerMsMax, Math.max(0, at - now));
      state.timerAt = now + inMs;
      // The timer is for the whole node, whichever attempt has it armed.
      const tick = () => {
        state.timerAt = Number.POSITIVE_INFINITY;
        state.agent.tick(performance.now());
      };
      state.timer = outsideWork(() => setTimeout(tick, Math.ceil(inMs)));
    },
  };
}

async function start(host: ServiceHost): Promise<NodeState> {
  const directory = join(host.config.DATA_DIR, "compose");
  const journal = await FileJournal.open(directory, executionLimits.journalLinesMax);
  const identity = {
    node: host.broker.nodeID,
    boot: newJobId(Date.now(), Math.random),
    slots: host.config.RENDER_SLOTS,
    kinds: Object.keys(executors),
  };
  const state = { journal, timerAt: Number.POSITIVE_INFINITY, stopped: false } as NodeState;
  state.agent = new NodeAgent(identity, portsOf(host, identity, state), nodeLimits);
  await state.agent.recover();
  return state;
}

async function within(boundMs: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, boundMs);
  });
  await Promise.race([work, bound]);
  clearTimeout(timer);
}

/** Nothing goes on after the end: running work is stopped and handed back, or noted for the next start. */
async function stop(state: NodeState): Promise<void> {
  const drained = state.agent.drain(0);
  await within(executionLimits.stopMsMax, state.agent.whenQuiet());
  // When the whole product stops, the scheduler may be gone before us: the journal tells the next start.
  await within(executionLimits.handBackMsMax, drained);
  state.stopped = true;
  clearTimeout(state.timer);
  await state.journal.close();
}

export const composeService = implementService(composeContract, {
  start,
  stop,
  handlers: {
    begin: (ctx, { agent }) => agent.begin(ctx.params),
    halt: (ctx, { agent }) => agent.halt(ctx.params, ctx.params.reason),
    probe: (_ctx, { agent }) => agent.probe(),
  },
});

import {
  type ActionHandler,
  type ActionSchema,
  type Context,
  type Service,
  ServiceBroker,
} from "moleculer";
import { brokerOptions } from "../lib/broker-options.ts";
import { loadConfig } from "../lib/config.ts";
import { systemCall } from "../lib/service.ts";
import { composeService } from "../services/compose/compose.service.ts";
import { noopExecutor } from "../services/compose/noop.executor.ts";
import { schedulerElectionService } from "../services/scheduler/scheduler-election.service.ts";
import { storageService } from "../services/storage/storage.service.ts";
import type { Contestant, Load, Started } from "./jobs-measure.ts";

const DURABILITY = "fsync before the answer (SQLite WAL, synchronous=FULL)";

export class Listeners {
  start = (_at: number, _id?: string) => {};
  end = () => {};
}

/** A broker with the real scheduler on a store in this directory. */
function schedulerBroker(dataDir: string, slots: number, listeners: Listeners) {
  const env = { DATA_DIR: dataDir, LOG_LEVEL: "error", RENDER_SLOTS: String(slots) };
  const { config } = loadConfig(env);
  const options = brokerOptions(config);
  options.middlewares?.push({
    name: "bench",
    localAction(next: ActionHandler, action: ActionSchema) {
      if (action.name !== "scheduler.complete") return next;
      return async function completeAndTell(this: Service, ctx: Context) {
        const answer = await next.call(this, ctx);
        listeners.end();
        return answer;
      };
    },
  });
  const broker = new ServiceBroker(options);
  broker.createService(schedulerElectionService.schema({ config }));
  return { broker, config };
}

/** Resolves when a node has reported to the scheduler. */
async function nodeReported(broker: ServiceBroker): Promise<void> {
  const call = systemCall(broker);
  for (let tries = 0; tries < 1_000; tries++) {
    if ((await call("scheduler.nodes", {})).nodes.length > 0) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("no compose node has reported");
}

export function started(broker: ServiceBroker, listeners: Listeners): Started {
  const call = systemCall(broker);
  return {
    submit: () => call("scheduler.submit", { kind: "noop", payload: {} }),
    onStart: (listener) => {
      listeners.start = listener;
    },
    onEnd: (listener) => {
      listeners.end = listener;
    },
    stop: () => broker.stop(),
  };
}

/** The product as it ships: real scheduler, real node runtime with its journal and work directories, one process. */
export const productContestant: Contestant = {
  name: "reelmesh",
  durability: DURABILITY,
  async start(dataDir: string, { slots }: Load) {
    const listeners = new Listeners();
    const { broker, config } = schedulerBroker(dataDir, slots, listeners);
    broker.createService(storageService.schema({ config }));
    broker.createService(composeService.schema({ config }));
    const { execute } = noopExecutor;
    noopExecutor.execute = (payload, tools) => {
      listeners.start(performance.now());
      return execute(payload, tools);
    };
    await broker.start();
    await nodeReported(broker);
    const running = started(broker, listeners);
    return {
      ...running,
      async stop() {
        await running.stop();
        noopExecutor.execute = execute;
      },
    };
  },
};

/**
 * A node that does nothing at all, as a BullMQ worker does: it ends each attempt at once. The answer is for the end.
 */
export async function nodeWithoutJournal(
  broker: ServiceBroker,
  slots: number,
  heard: { start: (at: number, id: string) => void; end?: () => void },
): Promise<() => void> {
  const call = systemCall(broker);
  const ref = { node: broker.nodeID, boot: "bench" };
  const result = { hash: "noop", outputs: [], info: {} };
  broker.createService({
    name: "compose",
    actions: {
      begin: (ctx: Context<{ jobId: string; attempt: number }>) => {
        const { jobId, attempt } = ctx.params;
        heard.start(performance.now(), jobId);
        setImmediate(() => {
          void call("scheduler.complete", { ...ref, jobId, attempt, result }).then(heard.end);
        });
        return { outcome: "accepted" };
      },
    },
  });
  const gpu = { count: 0, idle: 0, usedPercent: 0 };
  const load = { cpuPercent: 0, memoryPercent: 0, gpu, draining: false };
  const beat = () =>
    call("scheduler.heartbeat", {
      report: { ...ref, kinds: ["noop"], slots, ...load },
      attempts: [],
    });
  await broker.start();
  await broker.waitForServices("scheduler", 30_000, 20);
  await beat();
  const timer = setInterval(() => void beat(), 5_000);
  return () => clearInterval(timer);
}

/** The scheduler with such a node: what scheduling alone costs. */
export const schedulerContestant: Contestant = {
  name: "reelmesh, node without journal",
  durability: DURABILITY,
  async start(dataDir: string, { slots }: Load) {
    const listeners = new Listeners();
    const { broker } = schedulerBroker(dataDir, slots, listeners);
    const leave = await nodeWithoutJournal(broker, slots, {
      start: (at, id) => listeners.start(at, id),
    });
    const running = started(broker, listeners);
    return {
      ...running,
      async stop() {
        leave();
        await running.stop();
      },
    };
  },
};

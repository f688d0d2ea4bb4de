import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Context, ServiceBroker } from "moleculer";
import { brokerOptions } from "../../lib/broker-options.ts";
import { type Config, loadConfig } from "../../lib/config.ts";
import type { ActionName, InputOf, OutputOf } from "../../lib/service.ts";
import { systemCall } from "../../lib/service.ts";
import { composeService } from "../../services/compose/compose.service.ts";
import type { HeartbeatAnswer } from "../../services/scheduler/job.types.ts";
import { storageService } from "../../services/storage/storage.service.ts";

type Said = {
  [N in ActionName]: { action: N; params: InputOf<N> };
}[ActionName];

/** A scheduler that does what a test tells it and remembers what it heard. */
export interface ScriptedScheduler {
  heard: Said[];
  /** Answers a call; without an entry: every lease is renewed, every report is taken. */
  answers: Partial<Record<string, (params: never) => unknown>>;
}

const defaults: Record<string, (params: never) => unknown> = {
  heartbeat: ({ attempts }: InputOf<"scheduler.heartbeat">): HeartbeatAnswer => ({
    renewed: attempts.map(({ jobId, attempt }) => ({ jobId, attempt, leaseMs: 20_000 })),
    fenced: [],
  }),
  complete: () => ({ outcome: "committed" }),
  fail: () => ({ outcome: "recorded" }),
  handBack: ({ attempts }: InputOf<"scheduler.handBack">) => ({ returned: attempts.length }),
  addLog: () => ({}),
  get: ({ id }: InputOf<"scheduler.get">) => ({ id, state: "pending", attempt: 1 }),
};

export interface ComposeNode {
  scheduler: ScriptedScheduler;
  config: Config;
  call: <N extends ActionName>(name: N, params: InputOf<N>) => Promise<OutputOf<N>>;
  stop(): Promise<void>;
}

/** One compose node with the real store and a scripted scheduler, in this process. */
export async function startComposeNode(
  env: Record<string, string> = {},
  scheduler: ScriptedScheduler = { heard: [], answers: {} },
): Promise<ComposeNode> {
  const own = env["DATA_DIR"] ? undefined : await mkdtemp(join(tmpdir(), "reelmesh-node-"));
  const { config } = loadConfig({
    LOG_LEVEL: "fatal",
    NODE_ID: "node-under-test",
    DATA_DIR: own,
    ...env,
  });
  const broker = new ServiceBroker(brokerOptions(config));
  broker.createService({
    name: "scheduler",
    actions: Object.fromEntries(
      Object.keys(defaults).map((name) => [
        name,
        (ctx: Context) => {
          scheduler.heard.push({ action: `scheduler.${name}`, params: ctx.params } as Said);
          const answer = scheduler.answers[name] ?? defaults[name];
          return answer?.(ctx.params as never);
        },
      ]),
    ),
  });
  broker.createService(storageService.schema({ config }));
  broker.createService(composeService.schema({ config }));
  await broker.start();
  return {
    scheduler,
    config,
    call: systemCall(broker),
    async stop() {
      await broker.stop();
      if (own) await rm(own, { recursive: true, force: true });
    },
  };
}

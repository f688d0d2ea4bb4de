// The product in a process of its own, driven over IPC: { id, action, params, headers? } in, { id, answer | error } out. It has
// one more kind of job: a shell with a child of its own, which ends by itself only once a file `finish` exists.
import { existsSync } from "node:fs";
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { loadConfig } from "../../lib/config.ts";
import { systemActor } from "../../lib/service.ts";
import type { Executor } from "../../services/compose/executor.ts";
import { executorKinds } from "../../services/compose/executor-kinds.ts";
import { executors } from "../../services/compose/executors.ts";
import { startNode } from "../../services/node.ts";

const payload = z.object({});
const processExecutor: Executor<typeof payload> = {
  kind: "test-process",
  payload,
  async execute(_payload, tools) {
    const dir = tools.config.DATA_DIR;
    if (existsSync(join(dir, "finish"))) return { outputs: [], info: { done: true } };
    await tools.run("sh", ["-c", "sleep 600 & echo $!; wait"], {
      onLine: (pid) => void appendFile(join(dir, "pids"), `${pid}\n`),
    });
    throw new Error("the shell ended by itself");
  },
};
Object.assign(executors, { "test-process": processExecutor });
Object.assign(executorKinds, { "test-process": payload });

interface Request {
  id: number;
  action: string;
  params: object;
  /** Of the call, as the gateway would set them. */
  headers?: Record<string, string>;
}

const { config } = loadConfig();
const node = await startNode(config);
process.on("message", async ({ id, action, params, headers }: Request) => {
  try {
    const options = { headers, meta: { actor: systemActor } };
    const answer = await node.broker.call(action, params, options as never);
    process.send?.({ id, answer });
  } catch (error) {
    process.send?.({ id, error: (error as Error).message });
  }
});
process.on("SIGTERM", async () => {
  await node.stop();
  process.exit(0);
});
process.send?.({ ready: true });

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { Queue, Worker } from "bullmq";
import { freePort } from "../scripts/servers/server.ts";
import type { Contestant, Load, Started } from "./jobs-measure.ts";

/** A Redis with an append-only file in this directory; resolves when it accepts connections. */
async function startRedis(dataDir: string, appendfsync: string) {
  const port = await freePort();
  const settings = {
    port,
    bind: "127.0.0.1",
    dir: dataDir,
    save: "",
    appendonly: "yes",
    appendfsync,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child: ChildProcess = spawn("redis-server", args, { stdio: ["ignore", "pipe", "ignore"] });
  await new Promise<void>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`redis-server ended with ${code}`)));
    child.stdout?.on("data", (text: Buffer) => {
      if (text.includes("Ready to accept connections")) resolve();
    });
  });
  child.removeAllListeners("exit");
  const stop = () =>
    new Promise<void>((resolve) => {
      child.once("exit", () => resolve());
      child.kill("SIGKILL");
    });
  return { port, stop };
}

async function start(dataDir: string, { slots }: Load, appendfsync: string): Promise<Started> {
  const redis = await startRedis(dataDir, appendfsync);
  const connection = { host: "127.0.0.1", port: redis.port, maxRetriesPerRequest: null };
  let started = (_at: number) => {};
  let ended = () => {};
  const queue = new Queue("bench", { connection });
  const worker = new Worker("bench", async () => started(performance.now()), {
    connection,
    concurrency: slots,
  });
  worker.on("completed", () => ended());
  // Closing connections to a server that is being stopped is no finding.
  queue.on("error", () => {});
  worker.on("error", () => {});
  await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);
  return {
    submit: () => queue.add("noop", { ms: 0 }, { attempts: 3, backoff: 2_000 }),
    onStart: (listener) => {
      started = listener;
    },
    onEnd: (listener) => {
      ended = listener;
    },
    async stop() {
      await worker.close(true);
      await queue.close();
      await redis.stop();
    },
  };
}

/** BullMQ, its worker in this process, on a Redis that this run starts and stops. */
export const bullmqContestant = (appendfsync: "always" | "everysec"): Contestant => ({
  name: `BullMQ, Redis appendfsync ${appendfsync}`,
  durability:
    appendfsync === "always"
      ? "fsync before the answer"
      : "fsync each second: the last second may be lost",
  start: async (dataDir, load) =>
    spawnSync("redis-server", ["--version"]).status === 0
      ? start(dataDir, load, appendfsync)
      : "redis-server is not installed here",
});

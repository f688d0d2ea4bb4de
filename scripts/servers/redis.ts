import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { limits } from "./config.ts";
import { aptInstall, findProgram } from "./install-steps.ts";
import { ManagedProcess } from "./managed-process.ts";
import type { ServerKind } from "./server.ts";
import { type Progress, ServerMissing } from "./server-cache.ts";

async function program(progress: Progress): Promise<string> {
  const find = () => findProgram("redis-server", "REDIS_SERVER_PATH");
  const found = find();
  if (found) return found;
  if (await aptInstall(["redis-server"], () => find() !== undefined, progress)) return find()!;
  throw new ServerMissing(
    "There is no redis-server, and no root with apt-get to get it: install it, or set REDIS_URL to a running one.",
  );
}

export const redis: ServerKind = {
  name: "redis",
  setting: "REDIS_URL",
  companions: [],
  install: async (progress) => void (await program(progress)),
  async prepare({ dir, record, port, progress }) {
    const data = join(dir, "data");
    await mkdir(data, { recursive: true });
    const recipe = {
      name: "redis",
      command: await program(progress),
      // The append-only file is written before the answer, so a killed process has lost nothing that it answered.
      args: [
        ...["--bind", "127.0.0.1", "--port", String(port), "--dir", data],
        ...["--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--daemonize", "no"],
      ],
      logFile: join(dir, "redis.log"),
    };
    return {
      processes: [new ManagedProcess(recipe, record)],
      env: { REDIS_URL: `redis://127.0.0.1:${port}` },
    };
  },
  async ping(env) {
    const client = new Redis(env["REDIS_URL"]!, {
      lazyConnect: true,
      connectTimeout: limits.pingMs,
      retryStrategy: () => null,
    });
    // The rejection of the call tells the same.
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.ping();
    } finally {
      client.disconnect();
    }
  },
};

import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../scripts/servers/server.ts";
import { findFfmpeg } from "../../services/compose/media/ffmpeg.ts";
import { identify, isSameProcess } from "../../services/compose/process-group.ts";
import { type Command, runScript } from "./command.ts";
import type { Product } from "./product.ts";
import { until } from "./until.ts";

export const bridgeToken = "the-token-of-the-bridge";

export interface TestBridge {
  url: string;
  port: number;
  dir: string;
  command: Command;
  /** From now on renders do not end by themselves; answers the process that stands still for the next one. */
  holdRenders(): Promise<void>;
  releaseRenders(): Promise<void>;
  heldProcess(): Promise<{ isAlive(): Promise<boolean> }>;
  request(
    method: string,
    path: string,
    body?: unknown,
    token?: string,
    // biome-ignore lint/suspicious/noExplicitAny: answers are checked field by field by the tests
  ): Promise<{ status: number; body: any }>;
  kill(): Promise<void>;
  /** Starts again on the same port and data. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** An FFmpeg that, while the file `hold` exists, takes a process and time instead of rendering. */
async function pausableFfmpeg(dir: string, product: Pick<Product, "config">): Promise<string> {
  const { ffmpeg } = await findFfmpeg(product.config);
  const file = join(dir, "ffmpeg.sh");
  const held = [
    `case "$*" in *output.mp4*) if [ -e "${dir}/hold" ]; then`,
    `sleep 600 & echo $! >> "${dir}/pids"; wait; exit 1; fi;; esac`,
  ];
  await writeFile(file, ["#!/bin/sh", ...held, `exec "${ffmpeg}" "$@"`, ""].join("\n"));
  await chmod(file, 0o755);
  return file;
}

/** `npm run bridge` as a process of its own, on a free port and in a fresh directory. */
export async function startTestBridge(
  product: Pick<Product, "config">,
  env: Record<string, string> = {},
  port?: number,
): Promise<TestBridge> {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-bridge-"));
  const at = port ?? (await freePort());
  const settings = {
    HOST: "127.0.0.1",
    PORT: String(at),
    DATA_DIR: dir,
    BRIDGE_TOKEN: bridgeToken,
    LOG_LEVEL: "info",
    FFMPEG_PATH: await pausableFfmpeg(dir, product),
    ...env,
  };
  const start = async () => {
    const command = runScript("bridge", { env: settings });
    await command.until(/bridge serves/);
    return command;
  };
  const pids = async () =>
    (await readFile(join(dir, "pids"), "utf8").catch(() => "")).split("\n").filter(Boolean);
  const bridge: TestBridge = {
    url: `http://127.0.0.1:${at}`,
    port: at,
    dir,
    command: await start(),
    holdRenders: () => writeFile(join(dir, "hold"), ""),
    async releaseRenders() {
      await rm(join(dir, "hold"), { force: true });
    },
    async heldProcess() {
      await until(async () => (await pids()).length > 0, {
        what: "a render that stands still",
        limitMs: 40_000,
      });
      const process = await identify(Number((await pids()).at(-1)));
      if (!process) throw new Error("the process of the render is not there");
      return { isAlive: () => isSameProcess(process) };
    },
    async request(method, path, body, token = bridgeToken) {
      const response = await fetch(bridge.url + path, {
        method,
        headers: {
          ...(token ? { authorization: `Bearer ${token}` } : {}),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      return { status: response.status, body: await response.json() };
    },
    async kill() {
      bridge.command.child.kill("SIGKILL");
      await bridge.command.ended;
    },
    async restart() {
      bridge.command = await start();
    },
    async stop() {
      bridge.command.child.kill("SIGTERM");
      await bridge.command.ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
  return bridge;
}

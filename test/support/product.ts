import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Config, loadConfig } from "../../lib/config.ts";
import { type RunningNode, startNode } from "../../services/node.ts";
import { until } from "./until.ts";

// biome-ignore lint/suspicious/noExplicitAny: answers are checked field by field by the tests
type Body = any;

export interface Product extends RunningNode {
  url: string;
  config: Config;
  /** JSON request with a bearer token: status, headers and parsed body. */
  request(
    method: string,
    path: string,
    options?: { token?: string; body?: unknown; headers?: Record<string, string> },
  ): Promise<{ status: number; headers: Headers; body: Body }>;
}

/** The whole product in this process, on a free port and in a fresh directory; `stop` leaves nothing behind. */
export async function startProduct(env: Record<string, string> = {}): Promise<Product> {
  const own = env["DATA_DIR"] ? undefined : await mkdtemp(join(tmpdir(), "reelmesh-test-"));
  const cleanUp = async () => {
    if (own) await rm(own, { recursive: true, force: true });
  };
  const { config } = loadConfig({ PORT: "0", LOG_LEVEL: "error", DATA_DIR: own, ...env });
  const node = await startNode(config).catch(async (error) => {
    await cleanUp();
    throw error;
  });
  const url = node.address?.url ?? "";
  return {
    ...node,
    url,
    config,
    async request(method, path, { token, body, headers } = {}) {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: {
          ...(token ? { authorization: `Bearer ${token}` } : {}),
          ...(body !== undefined ? { "content-type": "application/json" } : {}),
          ...headers,
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      const text = await response.text();
      let parsed: unknown = text;
      try {
        parsed = text ? JSON.parse(text) : undefined;
      } catch {
        // Not JSON: the text itself is the body.
      }
      return { status: response.status, headers: response.headers, body: parsed as Body };
    },
    async stop() {
      await node.stop();
      await cleanUp();
    },
  };
}

/** Asks a route of the job until it has ended; answers what the route said last. `seen` gets its progress on the way. */
export async function endOfJob(
  ask: () => Promise<{ body: Body }>,
  seen: number[] = [],
): Promise<Body> {
  let job: Body;
  await until(
    async () => {
      job = (await ask()).body;
      seen.push(job.progress);
      return ["success", "failed", "cancelled"].includes(job.status);
    },
    { what: "the end of the job", limitMs: 60_000 },
  );
  return job;
}

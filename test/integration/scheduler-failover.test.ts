import { type ChildProcess, fork } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "@jest/globals";
import { systemCall, type TypedCall } from "../../lib/service.ts";
import type { JobView } from "../../services/scheduler/scheduler.contract.ts";
import { type Product, startProduct } from "../support/product.ts";
import { serversForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const servers = await serversForTests("nats", "mongo");
const script = fileURLToPath(new URL("../support/product-child.ts", import.meta.url));
const limitMs = 40_000;
const names = ["scheduler-a", "scheduler-b"];

const children = new Map<string, ChildProcess>();
const dirs: string[] = [];
let compose: Product | undefined;
let meshes = 0;

const exited = (child: ChildProcess) =>
  new Promise<void>((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    else child.once("exit", () => resolve());
  });

afterEach(async () => {
  await compose?.stop();
  compose = undefined;
  for (const child of children.values()) {
    child.kill("SIGKILL");
    await exited(child);
  }
  children.clear();
  for (const dir of dirs.splice(0)) await rm(dir, { recursive: true, force: true });
});

/** A scheduler in a process of its own. */
async function startScheduler(name: string, env: Record<string, string>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-failover-"));
  dirs.push(dir);
  const child = fork(script, {
    execArgv: ["--no-warnings"],
    env: { ...process.env, ...env, DATA_DIR: dir, NODE_ID: name, SERVICES: "scheduler" },
  });
  children.set(name, child);
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error(`${name} ended while it started`)));
    child.on("message", ({ ready }: { ready?: true }) => ready && resolve());
  });
}

/** Two schedulers and a compose node, which is also where the calls come from. */
async function startMesh(): Promise<TypedCall> {
  meshes += 1;
  const env = {
    TRANSPORTER: servers.natsUrl,
    NAMESPACE: `${servers.prefix}${meshes}`,
    MONGO_URL: servers.mongoUrl(`failover${meshes}`),
    LOG_LEVEL: "fatal",
  };
  compose = await startProduct({
    ...env,
    NODE_ID: "compose",
    SERVICES: "compose",
    RENDER_SLOTS: "8",
  });
  await Promise.all(names.map((name) => startScheduler(name, env)));
  const call = systemCall(compose.broker);
  await until(async () => (await call("scheduler.nodes", {})).nodes.length === 1, { limitMs });
  return call;
}

const statusOf = (call: TypedCall, nodeID: string) =>
  call("schedulerElection.status", {}, { nodeID, timeout: 1_000 }).catch(() => undefined);

async function leaderOf(call: TypedCall, among = names): Promise<string | undefined> {
  for (const name of among) if ((await statusOf(call, name))?.role === "leader") return name;
  return undefined;
}

/** Clients that hand in a job again and again until told to stop; what was answered is remembered. */
class Clients {
  readonly accepted = new Map<string, string>();
  readonly refused: unknown[] = [];
  #isOver = false;
  readonly #done: Promise<unknown>;

  constructor(call: TypedCall, count: number) {
    const one = async (client: number) => {
      for (let n = 0; !this.#isOver; n++) {
        const key = `${client}-${n}`;
        const request = { kind: "noop", payload: { ms: 20 }, idempotencyKey: key };
        await call("scheduler.submit", request).then(
          ({ id }) => this.accepted.set(key, id),
          (error) => this.refused.push(error),
        );
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    this.#done = Promise.all(Array.from({ length: count }, (_, client) => one(client)));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#done;
  }
}

const ended = async (call: TypedCall, id: string): Promise<JobView> => {
  let job: JobView | undefined;
  await until(
    async () => {
      job = await call("scheduler.get", { id });
      return job.state === "success";
    },
    { what: `the end of job ${id}`, limitMs },
  );
  return job as JobView;
};

servers.describe("two schedulers on one store", () => {
  test.each([
    ["killed", "SIGKILL"],
    ["stopped in good order", "SIGTERM"],
    ["standing still", "SIGSTOP"],
  ] as const)(
    "the other takes over from a leader that is %s: what was accepted is done, and no attempt is lost",
    async (_how, signal) => {
      const call = await startMesh();
      const first = (await leaderOf(call)) as string;
      const [second] = names.filter((name) => name !== first) as [string];
      const before = (await statusOf(call, first))!.term;
      const long = await call("scheduler.submit", { kind: "noop", payload: { ms: 9_000 } });
      const clients = new Clients(call, 4);
      await until(() => clients.accepted.size > 20, { limitMs });

      const child = children.get(first) as ChildProcess;
      child.kill(signal);
      await until(async () => (await statusOf(call, second))?.role === "leader", { limitMs });
      const acceptedThen = clients.accepted.size;
      await until(() => clients.accepted.size > acceptedThen + 20, { limitMs });
      if (signal === "SIGSTOP") {
        child.kill("SIGCONT");
        // It has noticed by itself: it stands by under the later term, and nobody finds a leader there.
        await until(
          async () => {
            const status = await statusOf(call, first);
            return status?.role === "standby" && status.term > before;
          },
          { limitMs },
        );
        await expect(
          call("scheduler.get", { id: long.id }, { nodeID: first, timeout: 2_000 }),
        ).rejects.toMatchObject({ type: "SERVICE_NOT_FOUND" });
      }
      await clients.stop();

      expect(clients.refused).toEqual([]);
      expect(await leaderOf(call, [second])).toBe(second);
      for (const id of clients.accepted.values())
        expect(await ended(call, id)).toMatchObject({ attempt: 1 });
      expect(new Set(clients.accepted.values()).size).toBe(clients.accepted.size);
      expect(await ended(call, long.id)).toMatchObject({ attempt: 1, nodesLost: 0 });
    },
    120_000,
  );

  test("a call of which nobody knows whether it was carried out is not repeated unless that is safe", async () => {
    const call = await startMesh();
    const first = (await leaderOf(call)) as string;
    const child = children.get(first) as ChildProcess;
    child.kill("SIGSTOP");
    const once = call("scheduler.submit", { kind: "noop", payload: {} }, { timeout: 3_000 });
    const safe = call("scheduler.submit", { kind: "noop", payload: {}, idempotencyKey: "safe" });
    await expect(once).rejects.toMatchObject({ type: "REQUEST_TIMEOUT" });
    const { id } = await safe;
    child.kill("SIGCONT");
    // What it was sent before it has dealt with before it answers this.
    await until(async () => (await statusOf(call, first))?.role === "standby", { limitMs });
    expect(await ended(call, id)).toMatchObject({ attempt: 1 });
    expect((await call("scheduler.list", {})).jobs.map((job) => job.id)).toEqual([id]);
  });
});

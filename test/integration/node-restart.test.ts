import { type ChildProcess, fork } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { identify, isSameProcess } from "../../services/compose/process-group.ts";
import type { JobView } from "../../services/scheduler/scheduler.contract.ts";
import { until } from "../support/until.ts";

const script = fileURLToPath(new URL("../support/product-child.ts", import.meta.url));

interface Running {
  child: ChildProcess;
  call<T>(action: string, params: object): Promise<T>;
}

let dir: string;
const children: ChildProcess[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-restart-"));
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill("SIGKILL");
    await exited(child);
  }
  await rm(dir, { recursive: true, force: true });
});

const exited = (child: ChildProcess) =>
  new Promise<void>((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    else child.once("exit", () => resolve());
  });

async function start(): Promise<Running> {
  const child = fork(script, {
    execArgv: ["--no-warnings"],
    env: { ...process.env, DATA_DIR: dir, PORT: "0", LOG_LEVEL: "fatal" },
  });
  children.push(child);
  const waiting = new Map<number, (reply: { answer?: unknown; error?: string }) => void>();
  let lastId = 0;
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error("the product ended while it started")));
    child.on(
      "message",
      (message: { ready?: true; id?: number; answer?: unknown; error?: string }) => {
        if (message.ready) resolve();
        else waiting.get(message.id as number)?.(message);
      },
    );
  });
  return {
    child,
    call: (action, params) =>
      new Promise((resolve, reject) => {
        const id = ++lastId;
        waiting.set(id, ({ answer, error }) =>
          error === undefined ? resolve(answer as never) : reject(new Error(error)),
        );
        child.send({ id, action, params });
      }),
  };
}

/** Submits the job whose processes do not end, and answers the process that its shell has started. */
async function submitProcess(product: Running) {
  const job = await product.call<JobView>("scheduler.submit", {
    kind: "test-process",
    payload: {},
  });
  const pids = async () => (await readFile(join(dir, "pids"), "utf8").catch(() => "")).split("\n");
  await until(async () => (await pids()).length > 1, { what: "the shell's child" });
  const grandchild = await identify(Number((await pids())[0]));
  if (!grandchild) throw new Error("the shell's child is not there");
  return { id: job.id, grandchild };
}

const success = async (product: Running, id: string): Promise<JobView> => {
  let job: JobView | undefined;
  await until(async () => {
    job = await product.call<JobView>("scheduler.get", { id });
    return job.state === "success";
  });
  return job as JobView;
};

describe("restart of the product", () => {
  test("after a kill -9 the next start kills the orphans and the same job ends in success", async () => {
    const first = await start();
    const { id, grandchild } = await submitProcess(first);
    first.child.kill("SIGKILL");
    await exited(first.child);
    expect(await isSameProcess(grandchild)).toBe(true);
    await writeFile(join(dir, "finish"), "");

    const second = await start();
    expect(await isSameProcess(grandchild)).toBe(false);
    expect(await success(second, id)).toMatchObject({
      errors: 0,
      result: { info: { done: true } },
    });
    expect(await readdir(join(dir, "work"))).toEqual([]);
  });

  test("a stop in good order ends the processes, and the next start goes on without a loss", async () => {
    const first = await start();
    const { id, grandchild } = await submitProcess(first);
    first.child.kill("SIGTERM");
    await exited(first.child);
    expect(first.child.exitCode).toBe(0);
    expect(await isSameProcess(grandchild)).toBe(false);
    expect(await readdir(join(dir, "work"))).toEqual([]);
    await writeFile(join(dir, "finish"), "");

    const second = await start();
    expect(await success(second, id)).toMatchObject({ errors: 0, nodesLost: 0 });
  });

  test("a cancel ends the processes of a running job", async () => {
    const product = await start();
    const { id, grandchild } = await submitProcess(product);
    await product.call("scheduler.cancel", { id });
    await until(async () => !(await isSameProcess(grandchild)));
    await until(async () => (await readdir(join(dir, "work"))).length === 0);
    expect(await product.call("scheduler.get", { id })).toMatchObject({ state: "cancelled" });
  });
});

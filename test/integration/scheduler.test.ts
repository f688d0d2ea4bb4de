import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { ServiceBroker } from "moleculer";
import { brokerOptions } from "../../lib/broker-options.ts";
import { loadConfig } from "../../lib/config.ts";
import { systemCall, type TypedCall } from "../../lib/service.ts";
import { schedulerElectionService } from "../../services/scheduler/scheduler-election.service.ts";
import { until } from "../support/until.ts";

interface Order {
  jobId: string;
  attempt: number;
  payload: Record<string, unknown>;
}

interface Delivery {
  job: { id: string; state: string };
  params: unknown;
}

/** A compose node of which the test decides what it answers. */
class StubNode {
  readonly boot = "boot-1";
  readonly orders: Order[] = [];
  readonly halted: string[] = [];
  readonly delivered: Delivery[] = [];
  deliveriesToRefuse = 0;
  readonly #broker: ServiceBroker;

  constructor(broker: ServiceBroker) {
    this.#broker = broker;
    broker.createService({
      name: "compose",
      actions: {
        begin: (ctx: { params: Order }) => {
          this.orders.push(ctx.params);
          return { outcome: "accepted" };
        },
        halt: (ctx: { params: Order }) => {
          this.halted.push(ctx.params.jobId);
          return { held: true };
        },
      },
    });
    broker.createService({
      name: "listener",
      actions: {
        settled: (ctx: { params: Delivery }) => {
          if (this.deliveriesToRefuse-- > 0) throw new Error("not now");
          this.delivered.push(ctx.params);
        },
      },
    });
  }

  get ref() {
    return { node: this.#broker.nodeID, boot: this.boot };
  }

  report(slots: number) {
    const gpu = { count: 0, idle: 0, usedPercent: 0 };
    const load = { cpuPercent: 0, memoryPercent: 0, gpu, draining: false };
    return { ...this.ref, kinds: ["noop"], slots, ...load };
  }
}

let dir: string;
let broker: ServiceBroker;
let call: TypedCall;
let node: StubNode;

async function start() {
  const { config } = loadConfig({ DATA_DIR: dir, LOG_LEVEL: "fatal", NODE_ID: "node-1" });
  broker = new ServiceBroker(brokerOptions(config));
  broker.createService(schedulerElectionService.schema({ config }));
  node = new StubNode(broker);
  await broker.start();
  call = systemCall(broker);
}

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-scheduler-"));
  await start();
});
afterEach(async () => {
  await broker.stop();
  await rm(dir, { recursive: true, force: true });
});

const result = (hash: string) => ({ hash, outputs: [], info: {} });

describe("scheduler service", () => {
  test("a job goes to a node that reported, completes there, and its callback is delivered with the job", async () => {
    await call("scheduler.heartbeat", { report: node.report(1), attempts: [] });
    const job = await call("scheduler.submit", {
      kind: "noop",
      payload: { ms: 5 },
      onSettled: { action: "listener.settled", params: { run: 7 } },
    });
    node.deliveriesToRefuse = 1;
    await until(() => node.orders.length === 1);
    expect(node.orders[0]).toMatchObject({ jobId: job.id, attempt: 1, payload: { ms: 5 } });
    const attempt = { jobId: job.id, attempt: 1, ...node.ref };
    expect(await call("scheduler.complete", { ...attempt, result: result("a") })).toEqual({
      outcome: "committed",
    });
    expect(await call("scheduler.get", { id: job.id })).toMatchObject({
      state: "success",
      progress: 1,
      result: { hash: "a" },
    });
    await until(() => node.delivered.length === 1);
    expect(node.delivered[0]).toMatchObject({
      job: { id: job.id, state: "success" },
      params: { run: 7 },
    });
  });

  test("accepted jobs, their callbacks and paused queues survive a restart", async () => {
    await call("scheduler.pause", { queue: "slow" });
    const waiting = await call("scheduler.submit", { kind: "noop", payload: {}, queue: "slow" });
    await call("scheduler.heartbeat", { report: node.report(1), attempts: [] });
    const running = await call("scheduler.submit", {
      kind: "noop",
      payload: {},
      onSettled: { action: "listener.settled", params: {} },
    });
    await until(() => node.orders.length === 1);
    node.deliveriesToRefuse = 1;
    const attempt = { jobId: running.id, attempt: 1, ...node.ref };
    await call("scheduler.complete", { ...attempt, result: result("a") });
    await broker.stop();
    await start();
    expect(await call("scheduler.get", { id: running.id })).toMatchObject({ state: "success" });
    expect(await call("scheduler.get", { id: waiting.id })).toMatchObject({ state: "pending" });
    expect((await call("scheduler.stats", {})).paused).toEqual(["slow"]);
    await until(() => node.delivered.length === 1);
    await call("scheduler.heartbeat", { report: node.report(1), attempts: [] });
    await call("scheduler.resume", { queue: "slow" });
    await until(() => node.orders.some(({ jobId }) => jobId === waiting.id));
  });

  test("a delayed retry starts by itself, without anybody asking", async () => {
    await call("scheduler.heartbeat", { report: node.report(1), attempts: [] });
    const { id } = await call("scheduler.submit", { kind: "noop", payload: {}, backoffMs: 50 });
    await until(() => node.orders.length === 1);
    const error = { type: "RENDER_FAILED", message: "no" };
    const attempt = { jobId: id, attempt: 1, ...node.ref };
    await call("scheduler.fail", { ...attempt, error, retryable: true });
    await until(() => node.orders.length === 2);
    expect(node.orders[1]).toMatchObject({ jobId: id, attempt: 2 });
    const { lines } = await call("scheduler.log", { id });
    expect(lines.map(({ attempt: number, level }) => [number, level])).toEqual([
      [1, "info"],
      [1, "warn"],
      [2, "info"],
    ]);
  });

  test("a cancelled job is halted at its node", async () => {
    await call("scheduler.heartbeat", { report: node.report(1), attempts: [] });
    const { id } = await call("scheduler.submit", { kind: "noop", payload: {} });
    await call("scheduler.cancel", { id, reason: "changed my mind" });
    await until(() => node.halted.length === 1);
    expect(node.halted).toEqual([id]);
    await expect(call("scheduler.retry", { id: crypto.randomUUID() })).rejects.toMatchObject({
      type: "JOB_NOT_FOUND",
    });
  });

  test("a payload that its kind does not allow is refused by path, and nothing is stored", async () => {
    const submit = (kind: string, payload: Record<string, unknown>) =>
      call("scheduler.submit", { kind, payload });
    await expect(submit("noop", { ms: -1 })).rejects.toMatchObject({
      type: "INVALID_INPUT",
      data: { issues: [{ path: "payload.ms" }] },
    });
    await expect(submit("dance", {})).rejects.toMatchObject({
      type: "JOB_KIND_UNKNOWN",
      message: expect.stringContaining("noop"),
    });
    expect((await call("scheduler.list", {})).jobs).toEqual([]);
  });

  test("lists are paged, filtered, newest first, and owners are those who asked", async () => {
    const submit = (owner?: string) =>
      call("scheduler.submit", { kind: "noop", payload: {}, owner });
    const ids = [];
    for (const owner of ["member:1", undefined, "member:1"]) ids.push((await submit(owner)).id);
    const first = await call("scheduler.list", { limit: 2 });
    const second = await call("scheduler.list", { limit: 2, after: first.next });
    const listed = [...first.jobs, ...second.jobs];
    expect(listed.map(({ id }) => id)).toEqual(ids.reverse());
    expect(listed.map(({ owner }) => owner)).toEqual(["member:1", "system:system", "member:1"]);
    expect((await call("scheduler.list", { owner: "member:1" })).jobs).toHaveLength(2);
  });
});

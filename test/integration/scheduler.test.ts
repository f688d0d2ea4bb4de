import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { ServiceBroker } from "moleculer";
import { brokerOptions } from "../../lib/broker-options.ts";
import { loadConfig } from "../../lib/config.ts";
import { systemCall, type TypedCall } from "../../lib/service.ts";
import { schedulerService } from "../../services/scheduler/scheduler.service.ts";
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
  broker.createService(schedulerService.schema({ config }));
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
});

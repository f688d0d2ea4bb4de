import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { ServiceBroker } from "moleculer";
import { brokerOptions } from "../../lib/broker-options.ts";
import { loadConfig } from "../../lib/config.ts";
import { systemCall } from "../../lib/service.ts";
import { agentRunService } from "../../services/agent/run.service.ts";
import type { JobView } from "../../services/scheduler/scheduler.contract.ts";
import { type Product, startProduct } from "../support/product.ts";

const path = "/agent/admin/run";

let product: Product;
let appId: string;
beforeAll(async () => {
  product = await startProduct();
  appId = (await call("agent.app.create", { name: "vlog" })).id;
});
afterAll(() => product.stop());

const call: ReturnType<typeof systemCall> = (name, params, options) =>
  systemCall(product.broker)(name, params, options);
const send = (method: string, target: string, body?: unknown) =>
  product.request(method, target, {
    token: product.config.MCP_TOKEN,
    body,
    headers: { "accept-language": "en" },
  });
const makeRun = async (fields: object = {}) =>
  (await send("POST", path, { app_id: appId, ...fields })).body.responseData;

function job(fields: Partial<JobView>): JobView {
  return {
    id: randomUUID(),
    kind: "compose",
    queue: "default",
    owner: "agent:mcp-token",
    state: "success",
    priority: 50,
    progress: 1,
    attempt: 1,
    errors: 0,
    nodesLost: 0,
    createdAt: 1,
    ...fields,
  };
}
const result = (key: string): NonNullable<JobView["result"]> => ({
  hash: "h",
  outputs: [
    { bucket: "reelmesh", key: `${key}.png`, bytes: 1, contentType: "image/png", role: "preview" },
    { bucket: "reelmesh", key, bytes: 5, contentType: "video/mp4", role: "media" },
  ],
  info: { frames: 75 },
});

describe("agent app runs over HTTP", () => {
  test("POST stores a pending run of an app that exists", async () => {
    const run = await makeRun({ input: { idea: "rain" } });
    expect(run).toMatchObject({ app_id: appId, status: "pending", input: { idea: "rain" } });
    expect((await send("GET", `${path}/${run.id}`)).body.responseData).toEqual(run);
    const listed = await send("GET", `${path}?app_id=${appId}&status=pending`);
    expect(listed.body.responseData.rows).toContainEqual(run);
  });

  test("POST names an app that does not exist, and a disabled one", async () => {
    const unknown = await send("POST", path, { app_id: "nobody" });
    expect([unknown.status, unknown.body.returnCode]).toEqual([400, 1003]);
    expect(unknown.body.message).toMatch(/app_id: there is no agent app nobody/);
    const { id } = await call("agent.app.create", { name: "off", status: "disabled" });
    const disabled = await send("POST", path, { app_id: id });
    expect([disabled.status, disabled.body.message]).toEqual([
      409,
      expect.stringContaining(`${id} is disabled`),
    ]);
  });

  test("PUT sets status and result, answers the run, and is safe to repeat", async () => {
    const run = await makeRun();
    const body = {
      status: "success",
      result: { score: 5 },
      media_url: "https://cdn.example/a.mp4",
    };
    for (const version of [2, 3]) {
      const answer = await send("PUT", `${path}/${run.id}`, body);
      expect(answer.body.responseData).toMatchObject({ ...body, version, app_id: appId });
    }
    const cleared = await send("PUT", `${path}/${run.id}`, { media_url: null });
    expect(cleared.body.responseData).not.toHaveProperty("media_url");
    expect(cleared.body.responseData.status).toBe("success");
  });

  test.each([
    ["a status outside the set", { status: "done" }, /status/],
    ["a result that is no object", { result: "fine" }, /result/],
    ["an address that is no http URL", { media_url: "javascript:alert(1)" }, /media_url/],
    ["another app", { app_id: "x" }, /app_id/],
    ["an unknown field", { state: "success" }, /state/],
  ])("PUT with %s answers 1003 and changes nothing", async (_, body, message) => {
    const run = await makeRun();
    const answer = await send("PUT", `${path}/${run.id}`, body);
    expect([answer.status, answer.body.returnCode]).toEqual([400, 1003]);
    expect(answer.body.message).toMatch(message);
    expect((await send("GET", `${path}/${run.id}`)).body.responseData).toEqual(run);
  });

  test("PUT of a run that does not exist answers 1004", async () => {
    const answer = await send("PUT", `${path}/nobody`, { status: "failed" });
    expect([answer.status, answer.body.returnCode]).toEqual([404, 1004]);
  });

  test("attachJob and settle cannot be reached from outside", async () => {
    for (const name of ["attachJob", "settle"])
      await expect(
        product.broker.call(`agent.run.${name}`, {}, {
          meta: { actor: { realm: "agent", id: "x" } },
        } as never),
      ).rejects.toMatchObject({ type: "FORBIDDEN" });
  });
});

describe("a run and its job", () => {
  test("success sets status, result and a media_url that serves the video", async () => {
    const run = await makeRun();
    const key = `renders/${run.id}.mp4`;
    await call(
      "storage.put",
      { bucket: "reelmesh", key, contentType: "video/mp4" },
      {
        stream: Readable.from([Buffer.from("video")]),
      },
    );
    const ended = job({ result: result(key) });
    await call("agent.run.attachJob", { runId: run.id, jobId: ended.id });
    const params = { job: ended, params: { runId: run.id } };
    expect(await call("agent.run.settle", params)).toEqual({ settled: true, reason: "stored" });
    const settled = (await send("GET", `${path}/${run.id}`)).body.responseData;
    expect(settled).toMatchObject({
      status: "success",
      job_id: ended.id,
      progress: 1,
      result: { frames: 75 },
    });
    expect(await (await fetch(settled.media_url)).text()).toBe("video");
    // The outbox may deliver twice.
    expect(await call("agent.run.settle", params)).toEqual({ settled: true, reason: "repeated" });
    expect((await send("GET", `${path}/${run.id}`)).body.responseData).toEqual(settled);
  });

  test("failure is kept with its reason, and no media_url", async () => {
    const run = await makeRun();
    const error = { type: "MEDIA_UNREADABLE", message: "tracks[0].clips[1]: no picture" };
    await call("agent.run.settle", {
      job: job({ state: "failed", error }),
      params: { runId: run.id },
    });
    const settled = (await send("GET", `${path}/${run.id}`)).body.responseData;
    expect(settled).toMatchObject({ status: "failed", error });
    expect(settled).not.toHaveProperty("media_url");
  });

  test("a job that ended before it was attached is not undone by the late attach", async () => {
    const run = await makeRun();
    const ended = job({ state: "cancelled" });
    await call("agent.run.settle", { job: ended, params: { runId: run.id } });
    const attached = await call("agent.run.attachJob", { runId: run.id, jobId: ended.id });
    expect(attached).toMatchObject({ status: "cancelled", job_id: ended.id, version: 2 });
  });

  test("an agent that reports success before the job does keeps the media_url from being lost", async () => {
    const run = await makeRun();
    const ended = job({ result: result("renders/early.mp4") });
    await call("agent.run.attachJob", { runId: run.id, jobId: ended.id });
    await send("PUT", `${path}/${run.id}`, { status: "success" });
    const params = { job: ended, params: { runId: run.id } };
    expect((await call("agent.run.settle", params)).reason).toBe("stored");
    await send("PUT", `${path}/${run.id}`, { result: { note: "mine" } });
    expect((await call("agent.run.settle", params)).reason).toBe("repeated");
    const settled = (await send("GET", `${path}/${run.id}`)).body.responseData;
    expect(settled).toMatchObject({ media_url: expect.any(String), result: { note: "mine" } });
    expect(settled).not.toHaveProperty("settled_as");
  });

  test("a failure that is delivered after the success of its retry changes nothing", async () => {
    const run = await makeRun();
    const retried = job({ result: result("renders/late.mp4") });
    const params = { runId: run.id };
    await call("agent.run.settle", { job: retried, params });
    const late: JobView = { ...retried, state: "failed", result: undefined };
    expect(await call("agent.run.settle", { job: late, params })).toEqual({
      settled: true,
      reason: "repeated",
    });
    expect(await call("agent.run.get", { id: run.id })).toMatchObject({ status: "success" });
  });

  test("a new job starts the run afresh, and the old one can no longer settle it", async () => {
    const run = await makeRun();
    const [first, second] = [job({ state: "failed" }), job({})];
    await call("agent.run.settle", { job: first, params: { runId: run.id } });
    const again = await call("agent.run.attachJob", { runId: run.id, jobId: second.id });
    expect(again).toMatchObject({ status: "pending", job_id: second.id, progress: 0 });
    expect(await call("agent.run.settle", { job: first, params: { runId: run.id } })).toEqual({
      settled: false,
      reason: "other-job",
    });
    expect(await call("agent.run.get", { id: run.id })).toMatchObject({ status: "pending" });
  });

  test("while its job runs, the run shows the job's state and progress; without a scheduler, its own", async () => {
    const dir = await mkdtemp(join(tmpdir(), "reelmesh-run-"));
    const { config } = loadConfig({ DATA_DIR: dir, LOG_LEVEL: "fatal", PORT: "0" });
    const broker = new ServiceBroker(brokerOptions(config));
    try {
      broker.createService(agentRunService.schema({ config }));
      broker.createService({
        name: "agent.app",
        actions: { get: () => ({ id: "a", status: "enabled" }) },
      });
      await broker.start();
      const { id } = await systemCall(broker)("agent.run.create", { app_id: "a" });
      const running = job({ state: "running", progress: 0.25 });
      await systemCall(broker)("agent.run.attachJob", { runId: id, jobId: running.id });
      const shown = () => systemCall(broker)("agent.run.get", { id });
      expect(await shown()).toMatchObject({ status: "pending", progress: 0 });
      broker.createService({ name: "scheduler", actions: { get: () => running } });
      await broker.waitForServices("scheduler");
      expect(await shown()).toMatchObject({ status: "running", progress: 0.25, version: 2 });
    } finally {
      await broker.stop();
      await rm(dir, { recursive: true });
    }
  });

  test("a run that was removed meanwhile ends the callback without an error", async () => {
    expect(await call("agent.run.settle", { job: job({}), params: { runId: "gone" } })).toEqual({
      settled: false,
      reason: "run-gone",
    });
  });
});

test("runs are there after a new start on the same data", async () => {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-runs-"));
  const start = () => startProduct({ DATA_DIR: dir });
  try {
    const first = await start();
    const app = await systemCall(first.broker)("agent.app.create", { name: "a" });
    const run = await systemCall(first.broker)("agent.run.create", { app_id: app.id });
    await first.stop();
    const second = await start();
    const answer = await second.request("GET", `${path}/${run.id}`, {
      token: second.config.MCP_TOKEN,
    });
    await second.stop();
    expect(answer.body.responseData).toEqual(run);
  } finally {
    await rm(dir, { recursive: true });
  }
});

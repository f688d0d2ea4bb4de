import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { systemCall, type TypedCall } from "../../lib/service.ts";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

let dir: string;
let product: Product;
let call: TypedCall;

async function start() {
  product = await startProduct({
    DATA_DIR: dir,
    SERVICES: "platform,scheduler,compose",
    RENDER_SLOTS: "2",
    LOG_LEVEL: "fatal",
  });
  call = systemCall(product.broker);
}
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-scheduler-"));
  await start();
});
afterEach(async () => {
  await product.stop();
  await rm(dir, { recursive: true, force: true });
});

const submit = (payload: Record<string, unknown> = {}) =>
  call("scheduler.submit", { kind: "noop", payload });
const stateOf = async (id: string) => (await call("scheduler.get", { id })).state;

describe("scheduler and compose node in one process", () => {
  test("each of 40 jobs ends in success after one attempt", async () => {
    const jobs = await Promise.all(Array.from({ length: 40 }, () => submit()));
    await until(async () => (await call("scheduler.stats", {})).queues["default"]?.success === 40);
    for (const { id } of jobs)
      expect(await call("scheduler.get", { id })).toMatchObject({ attempt: 1, errors: 0 });
  });

  test("a cancelled job ends at once and its slot takes the next one", async () => {
    const long = await Promise.all([submit({ ms: 600_000 }), submit({ ms: 600_000 })]);
    const next = await submit();
    expect(next.state).toBe("pending");
    await call("scheduler.cancel", { id: long[0].id });
    expect(await stateOf(long[0].id)).toBe("cancelled");
    await until(async () => (await stateOf(next.id)) === "success");
    expect(await stateOf(long[1].id)).toBe("running");
  });

  test("work that a stopping node hands back goes on after the next start, at no cost", async () => {
    const { id } = await submit({ ms: 1_000 });
    await until(async () => (await stateOf(id)) === "running");
    await product.stop();
    await start();
    await until(async () => (await stateOf(id)) === "success");
    expect(await call("scheduler.get", { id })).toMatchObject({ attempt: 2, errors: 0 });
  });
});

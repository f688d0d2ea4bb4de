import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { loadConfig } from "../../lib/config.ts";
import { systemCall } from "../../lib/service.ts";
import { bridgeToken, startTestBridge, type TestBridge } from "../support/bridge.ts";
import { freePort } from "../support/free-port.ts";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

let product: Product;
let bridge: TestBridge;
const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const config = loadConfig({ DATA_DIR: "/nowhere" }, { generate: false }).config;

/** A product without compose nodes of its own, whose one worker is the bridge. */
async function startProductWith(url: string): Promise<Product> {
  const started = await startProduct({
    SERVICES: "gateway,platform,scheduler",
    BRIDGE_URL: url,
    BRIDGE_TOKEN: bridgeToken,
  });
  ends.push(() => started.stop());
  return started;
}

const call: ReturnType<typeof systemCall> = (name, params, options) =>
  systemCall(product.broker)(name, params, options);

const title = {
  timeline: { tracks: [{ type: "text", clips: [{ text: "Hi", duration: 0.2 }] }] },
  output: { width: 64, height: 64, fps: 5, quality: "draft" },
};

async function submitTitle(): Promise<string> {
  const { status, body } = await product.request("POST", "/compose-timeline-ffmpeg", {
    token: bridgeToken,
    body: title,
  });
  expect({ status, body }).toMatchObject({ status: 200 });
  return body.job_id;
}

const jobOf = (id: string) => call("scheduler.get", { id });
const ended = async (id: string, state = "success") => {
  await until(async () => (await jobOf(id)).state === state, {
    what: `${state} of the job`,
    limitMs: 40_000,
  });
  return jobOf(id);
};
const storedUnder = async (prefix: string) =>
  (await call("storage.list", { bucket: "reelmesh", prefix, delimiter: "" })).objects;

describe("a bridge outside the mesh", () => {
  beforeEach(async () => {
    bridge = await startTestBridge({ config });
    ends.push(() => bridge.stop());
    product = await startProductWith(bridge.url);
  });

  test("renders a job of a product that has no compose node, and its video can be fetched", async () => {
    const id = await submitTitle();
    const job = await ended(id);
    expect(job).toMatchObject({ attempt: 1, errors: 0, node: `bridge:127.0.0.1:${bridge.port}` });
    const { body } = await product.request("GET", `/jobs/${id}`, { token: bridgeToken });
    const video = Buffer.from(await (await fetch(body.media_url)).arrayBuffer());
    expect(video.subarray(4, 8).toString()).toBe("ftyp");
    await until(async () => (await bridge.request("GET", "/status")).body.questions.length === 0);
  }, 60_000);
});

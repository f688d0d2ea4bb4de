import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { loadConfig } from "../../lib/config.ts";
import { systemCall } from "../../lib/service.ts";
import { freePort } from "../../scripts/servers/server.ts";
import { bridgeToken, startTestBridge, type TestBridge } from "../support/bridge.ts";
import { runScript } from "../support/command.ts";
import { cuttableLine } from "../support/cuttable-line.ts";
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
async function startProductWith(url: string, env: Record<string, string> = {}): Promise<Product> {
  const started = await startProduct({
    ...env,
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
    limitMs: 60_000,
  });
  return jobOf(id);
};

/** Attempts of a job that have left objects. */
const attemptsStored = async (id: string) => {
  const query = { bucket: "reelmesh", prefix: `jobs/${id}/`, delimiter: "" };
  const { objects } = await call("storage.list", query);
  return [...new Set(objects.map(({ key }) => Number(key.split("/")[2])))];
};

/** The bridge holds nothing and asks nothing any more. */
const settled = () =>
  until(
    async () => {
      const { body } = await bridge.request("GET", "/status");
      return body.questions.length === 0 && body.attempts.length === 0;
    },
    { what: "rest of the bridge" },
  );

const picture = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFElEQVR4nGOoIBEwjGoY1TB8NQAAY1loECb4YI4AAAAASUVORK5CYII=",
  "base64",
);

async function startBoth(): Promise<void> {
  bridge = await startTestBridge({ config });
  ends.push(() => bridge.stop());
  product = await startProductWith(bridge.url);
}

describe("a product whose only worker is a bridge outside the mesh", () => {
  test("gets its video from there, made of a picture in its own storage", async () => {
    await startBoth();
    const object = { bucket: "reelmesh", key: "uploads/picture.png", contentType: "image/png" };
    await call("storage.put", object, { stream: Readable.from([picture]) });
    const { body } = await product.request("POST", "/compose", {
      token: bridgeToken,
      body: {
        media: [{ src: "uploads/picture.png", duration: 0.4 }],
        ...title.output,
      },
    });
    const job = await ended(body.job_id);
    expect(job).toMatchObject({ attempt: 1, errors: 0, node: `bridge:127.0.0.1:${bridge.port}` });
    const done = await product.request("GET", `/jobs/${body.job_id}`, { token: bridgeToken });
    const video = Buffer.from(await (await fetch(done.body.media_url)).arrayBuffer());
    expect(video.subarray(4, 8).toString()).toBe("ftyp");
    await settled();
  }, 150_000);

  test("after a kill -9 of the bridge its next start kills the orphan, and the job ends in success", async () => {
    await startBoth();
    await bridge.holdRenders();
    const id = await submitTitle();
    const orphan = await bridge.heldProcess();
    await bridge.kill();
    expect(await orphan.isAlive()).toBe(true);
    await bridge.releaseRenders();
    await bridge.restart();
    expect(await orphan.isAlive()).toBe(false);
    const job = await ended(id);
    expect(job).toMatchObject({ errors: 0 });
    expect(await attemptsStored(id)).toEqual([job.attempt]);
    await settled();
  }, 150_000);

  test("a stop in good order hands the work back without the loss of a node", async () => {
    await startBoth();
    await bridge.holdRenders();
    const id = await submitTitle();
    const held = await bridge.heldProcess();
    bridge.command.child.kill("SIGTERM");
    expect(await bridge.command.ended).toBe(0);
    expect(await held.isAlive()).toBe(false);
    expect(await jobOf(id)).toMatchObject({ state: "pending", nodesLost: 0 });
    await bridge.releaseRenders();
    await bridge.restart();
    expect(await ended(id)).toMatchObject({ errors: 0, nodesLost: 0 });
    await settled();
  }, 150_000);

  test("a bridge that stood still for longer than its lease kills its work, and what it did is not counted", async () => {
    await startBoth();
    await bridge.holdRenders();
    const id = await submitTitle();
    const held = await bridge.heldProcess();
    bridge.command.child.kill("SIGSTOP");
    await until(async () => (await jobOf(id)).state === "pending", {
      what: "the end of the lease",
      limitMs: 90_000,
    });
    expect(await jobOf(id)).toMatchObject({ nodesLost: 1 });
    expect(await held.isAlive()).toBe(true);
    await bridge.releaseRenders();
    bridge.command.child.kill("SIGCONT");
    await until(async () => !(await held.isAlive()), { what: "the end of the old process" });
    const job = await ended(id);
    expect(job.attempt).toBeGreaterThan(1);
    expect(await attemptsStored(id)).toEqual([job.attempt]);
    await settled();
  }, 180_000);

  test("a new start of the scheduler goes on with the attempt that runs there", async () => {
    bridge = await startTestBridge({ config });
    ends.push(() => bridge.stop());
    const dir = await mkdtemp(join(tmpdir(), "reelmesh-product-"));
    ends.push(() => rm(dir, { recursive: true, force: true }));
    const PORT = String(await freePort());
    product = await startProductWith(bridge.url, { DATA_DIR: dir, PORT });
    await bridge.holdRenders();
    const id = await submitTitle();
    const held = await bridge.heldProcess();
    await product.stop();
    product = await startProductWith(bridge.url, { DATA_DIR: dir, PORT });
    await until(async () => (await call("scheduler.nodes", {})).nodes.length === 1, {
      what: "the bridge's first report",
      limitMs: 30_000,
    });
    expect(await held.isAlive()).toBe(true);
    expect(await jobOf(id)).toMatchObject({ state: "running", attempt: 1 });
    await call("scheduler.cancel", { id });
    await until(async () => !(await held.isAlive()), { what: "the end of the process" });
    await settled();
  }, 150_000);

  test("a cancelled job ends its processes there", async () => {
    await startBoth();
    await bridge.holdRenders();
    const id = await submitTitle();
    const held = await bridge.heldProcess();
    await call("scheduler.cancel", { id });
    await until(async () => !(await held.isAlive()), { what: "the end of the process" });
    expect(await jobOf(id)).toMatchObject({ state: "cancelled" });
    await settled();
  }, 150_000);

  test("lost requests and lost answers change nothing: each job has one attempt that counts", async () => {
    bridge = await startTestBridge({ config }, { RENDER_SLOTS: "2" });
    ends.push(() => bridge.stop());
    const line = await cuttableLine(new URL(bridge.url));
    ends.push(() => line.cut());
    line.fate = (n) => (n % 5 === 2 ? "deaf" : n % 7 === 3 ? "refused" : "whole");
    product = await startProductWith(line.url);
    const ids = await Promise.all(Array.from({ length: 5 }, submitTitle));
    for (const id of ids) {
      const job = await ended(id);
      expect(job).toMatchObject({ errors: 0, nodesLost: 0 });
      expect(await attemptsStored(id)).toEqual([job.attempt]);
    }
    expect(line.requests()).toBeGreaterThan(20);
    await settled();
  }, 150_000);

  test("whose storage links lead nowhere, is told in the job's log what to set", async () => {
    bridge = await startTestBridge({ config });
    ends.push(() => bridge.stop());
    const nowhere = `http://127.0.0.1:${await freePort()}`;
    product = await startProductWith(bridge.url, { PUBLIC_URL: nowhere });
    const id = await submitTitle();
    const said = async () => (await call("scheduler.log", { id })).lines.map(({ text }) => text);
    await until(async () => (await said()).some((text) => text.includes("PUBLIC_URL")), {
      what: "the line in the job's log",
      limitMs: 60_000,
    });
    const line = (await said()).find((text) => text.includes("PUBLIC_URL"));
    expect(line).toContain(`the connection to ${new URL(nowhere).host} failed (ECONNREFUSED)`);
    await call("scheduler.cancel", { id });
    await settled();
  }, 150_000);
});

describe("the bridge's own interface", () => {
  const jobId = "01a80000-0000-7000-8000-000000000001";
  const order = (attempt: object, task: object = { ms: 600_000 }) =>
    bridge.request("POST", "/noop", {
      ...task,
      attempt: {
        job_id: jobId,
        lease_ms: 20_000,
        owner: "t:t",
        bucket: "reelmesh",
        inputs: [],
        ...attempt,
      },
    });
  const boot = async () => (await bridge.request("GET", "/status")).body.boot as string;
  const held = async () =>
    (await bridge.request("GET", "/status")).body.attempts.map(
      (one: { attempt: number }) => one.attempt,
    );

  beforeEach(async () => {
    bridge = await startTestBridge({ config });
    ends.push(async () => {
      await bridge.kill();
      await bridge.stop();
    });
  });

  test("the same attempt twice is one; an older one, and one for another run, are refused", async () => {
    const run = await boot();
    const first = await order({ number: 2, boot: run });
    expect(first).toMatchObject({ status: 200, body: { status: "running", repeated: false } });
    expect(await order({ number: 2, boot: run })).toMatchObject({
      status: 200,
      body: { repeated: true, attempt: { number: 2, boot: run } },
    });
    expect(await order({ number: 1, boot: run })).toMatchObject({
      status: 409,
      body: { status: "refused", reason: "attempt 2 is known already" },
    });
    expect(await order({ number: 3, boot: "another-run" })).toMatchObject({ status: 409 });
    await until(async () => (await held()).join() === "2");
    // A newer attempt supersedes the one that runs.
    expect(await order({ number: 3, boot: run })).toMatchObject({ body: { status: "running" } });
    await until(async () => (await held()).join() === "3");
  });

  test("a lease that is not renewed ends the work; one that is renewed from a mark goes on", async () => {
    const run = await boot();
    await order({ number: 1, boot: run, lease_ms: 1_500 });
    const other = "01a80000-0000-7000-8000-000000000002";
    await until(async () => (await held()).length === 1);
    const { body } = await bridge.request("GET", "/status");
    const renewal = new URLSearchParams({
      attempt: "1",
      boot: run,
      mark: String(body.mark),
      lease_ms: "20000",
    });
    expect(await bridge.request("GET", `/jobs/${jobId}?${renewal}`)).toMatchObject({
      body: { status: "running", attempt: 1 },
    });
    await bridge.request("POST", `/jobs/${jobId}/cancel`, { attempt: 1, reason: "cancelled" });
    await until(async () => (await held()).length === 0);
    await order({ number: 1, boot: run, lease_ms: 1_500, job_id: other });
    await until(async () => (await held()).length === 1);
    await until(async () => (await held()).length === 0, { what: "the end of the lease" });
    expect(bridge.command.text()).toContain("was not renewed in time and is killed");
  });

  test("while it holds work of one installation, it answers no other", async () => {
    const asked = (installation: string) =>
      fetch(`${bridge.url}/status`, {
        headers: {
          authorization: `Bearer ${bridgeToken}`,
          "x-reelmesh-installation": installation,
        },
      });
    expect((await asked("installation-a")).status).toBe(200);
    await order({ number: 1, boot: await boot() });
    await until(async () => (await held()).length === 1);
    expect((await asked("installation-b")).status).toBe(409);
    expect((await asked("installation-a")).status).toBe(200);
    await bridge.kill();
    await bridge.restart();
    // What the crash left behind is still to be handed back to its owner.
    expect((await asked("installation-b")).status).toBe(409);
  });

  test("nothing but its health is told without the token", async () => {
    for (const [method, path] of [
      ["GET", "/status"],
      ["POST", "/compose"],
      ["GET", `/jobs/${jobId}`],
      ["POST", "/answers"],
      ["GET", "/no-such-path"],
    ] as const)
      for (const token of ["", "not-the-token-of-it"])
        expect(
          await bridge.request(method, path, method === "POST" ? {} : undefined, token),
        ).toMatchObject({ status: 401, body: { error: { type: "UNAUTHENTICATED" } } });
    expect(await bridge.request("GET", "/healthz", undefined, "")).toMatchObject({ status: 200 });
    expect(await bridge.request("GET", "/no-such-path")).toMatchObject({ status: 404 });
    expect(await bridge.request("DELETE", "/status")).toMatchObject({ status: 405 });
    expect(await bridge.request("POST", "/noop", { attempt: { number: 1 } })).toMatchObject({
      status: 400,
      body: { error: { type: "INVALID_INPUT" } },
    });
    expect(bridge.command.text()).not.toContain(bridgeToken);
  });
});

test("of two bridges on one directory the second does not start, and says why", async () => {
  bridge = await startTestBridge({ config });
  ends.push(() => bridge.stop());
  const env = { PORT: "0", DATA_DIR: bridge.dir, BRIDGE_TOKEN: bridgeToken };
  const second = runScript("bridge", { env });
  expect(await second.ended).toBe(1);
  expect(second.text()).toMatch(/^reelmesh bridge: DATA_DIR: .* is in use by process \d+/);
});

test("a bridge that others can reach does not start with a token that nobody chose", async () => {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-bridge-"));
  ends.push(() => rm(dir, { recursive: true, force: true }));
  const env = { HOST: "0.0.0.0", PORT: "0", DATA_DIR: dir, BRIDGE_TOKEN: "" };
  const command = runScript("bridge", { env });
  expect(await command.ended).toBe(1);
  expect(command.text()).toMatch(/^reelmesh bridge: BRIDGE_TOKEN: missing\. HOST 0\.0\.0\.0/);
});

describe("the plain bridge, for whoever has the token", () => {
  const submit = (more: object = {}) =>
    bridge.request("POST", "/compose-timeline-ffmpeg", { ...title, ...more });
  const done = async (id: string) => {
    await until(
      async () => {
        const { body } = await bridge.request("GET", `/jobs/${id}`);
        if (body.status === "failed") throw new Error(JSON.stringify(body));
        return body.status === "success";
      },
      { what: "success of the plain job", limitMs: 60_000 },
    );
    return (await bridge.request("GET", `/jobs/${id}`)).body;
  };
  beforeEach(async () => {
    bridge = await startTestBridge({ config });
    ends.push(() => bridge.stop());
  });

  test("renders a task and answers the link to its video; a repeated key is the same job", async () => {
    const first = await submit({ idempotency_key: "k1" });
    expect(first).toMatchObject({ status: 200, body: { repeated: false } });
    const job = await done(first.body.job_id);
    const video = await fetch(job.media_url);
    expect(video.headers.get("content-type")).toBe("video/mp4");
    expect(
      Buffer.from(await video.arrayBuffer())
        .subarray(4, 8)
        .toString(),
    ).toBe("ftyp");
    expect((await fetch(job.media_url.replace(/signature=./, "signature=!"))).status).toBe(403);
    expect(await submit({ idempotency_key: "k1" })).toMatchObject({
      body: { job_id: first.body.job_id, repeated: true },
    });
    expect(
      await submit({ idempotency_key: "k1", priority: 1, ...title, output: {} }),
    ).toMatchObject({
      status: 409,
      body: { error: { type: "IDEMPOTENCY_MISMATCH" } },
    });
  }, 150_000);

  test("keeps its queue and its keys over a kill -9, and takes no more than its slots", async () => {
    await bridge.holdRenders();
    const first = await submit({ idempotency_key: "one" });
    const second = await submit({ idempotency_key: "two" });
    const orphan = await bridge.heldProcess();
    expect((await bridge.request("GET", "/status")).body.slots).toBe(0);
    expect((await bridge.request("GET", `/jobs/${second.body.job_id}`)).body.status).toBe(
      "pending",
    );
    await bridge.kill();
    await bridge.releaseRenders();
    await bridge.restart();
    expect(await orphan.isAlive()).toBe(false);
    expect((await submit({ idempotency_key: "one" })).body).toMatchObject({
      job_id: first.body.job_id,
      repeated: true,
    });
    await done(first.body.job_id);
    await done(second.body.job_id);
  }, 150_000);

  test("says at once what is wrong with a task, and cancels", async () => {
    expect(await submit({ timeline: { tracks: [] } })).toMatchObject({ status: 400 });
    expect(await submit({ run_id: "r1" })).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining("run_id") } },
    });
    const inside = { media: [{ src: "http://10.0.0.1/a.mp4" }] };
    expect(await bridge.request("POST", "/compose", inside)).toMatchObject({
      body: { error: { type: "ADDRESS_FORBIDDEN" } },
    });
    await bridge.holdRenders();
    const { body } = await submit();
    const held = await bridge.heldProcess();
    expect(await bridge.request("POST", `/jobs/${body.job_id}/cancel`, {})).toMatchObject({
      body: { status: "cancelled" },
    });
    await until(async () => !(await held.isAlive()));
    const unknown = "01a80000-0000-7000-8000-000000000009";
    expect(await bridge.request("GET", `/jobs/${unknown}`)).toMatchObject({ status: 404 });
  }, 150_000);
});

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "@jest/globals";
import { loadConfig } from "../../lib/config.ts";
import { systemCall } from "../../lib/service.ts";
import { type RunningNode, startNode } from "../../services/node.ts";
import { mediaMaker } from "../support/lavfi.ts";
import { serversForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const servers = await serversForTests("nats", "s3");
const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** A node with a data directory of its own that shares nothing with others but the NATS server. */
async function node(namespace: string, env: Record<string, string>): Promise<RunningNode> {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-cluster-"));
  stops.push(() => rm(dir, { recursive: true, force: true }));
  const TRANSPORTER = servers.natsUrl;
  const { config } = loadConfig({
    PORT: "0",
    LOG_LEVEL: "error",
    TRANSPORTER,
    DATA_DIR: dir,
    ...env,
  });
  const running = await startNode(config, { broker: { namespace } });
  stops.push(running.stop);
  return running;
}

const s3Settings = () => ({
  S3_ENDPOINT: servers.s3.endpoint,
  OSS_ACCESSKEY_ID: servers.s3.accessKeyId,
  OSS_ACCESSKEY_SECRET: servers.s3.secretAccessKey,
  OSS_REGION: servers.s3.region,
  OSS_BUCKET_NAME: `${servers.prefix}-cluster`,
});

servers.describe("a compose node that has nothing but NATS and a way to the objects", () => {
  test.each([
    ["files of the platform node, through its gateway", () => ({})],
    ["an S3 server", s3Settings],
  ])("renders an uploaded source: %s", async (what, storage) => {
    const namespace = `${servers.prefix}-${what.length}`;
    const token = "token-of-the-bridge";
    const inside = await node(namespace, {
      NODE_ID: "inside",
      SERVICES: "gateway,platform,scheduler",
      BRIDGE_TOKEN: token,
      ...storage(),
    });
    // Neither bucket nor address nor key of the storage: the mesh tells it.
    const gpu = await node(namespace, { NODE_ID: "gpu", SERVICES: "compose" });
    await inside.broker.waitForServices("compose", 10_000, 50);
    await gpu.broker.waitForServices(["storage", "scheduler"], 10_000, 50);
    const url = inside.address?.url ?? "";
    const call = systemCall(inside.broker);
    const asked = new Set<string>();
    const ask = gpu.broker.call.bind(gpu.broker);
    gpu.broker.call = ((name: string, ...rest: []) => {
      asked.add(name);
      return ask(name, ...rest);
    }) as typeof ask;
    const { bucket } = await call("storage.addresses", {});
    if (Object.keys(storage()).length > 0) expect(bucket).toBe(`${servers.prefix}-cluster`);

    const dir = await mkdtemp(join(tmpdir(), "reelmesh-source-"));
    stops.push(() => rm(dir, { recursive: true, force: true }));
    const file = join(dir, "source.mp4");
    await (await mediaMaker(loadConfig({ DATA_DIR: dir }).config)).video(file);
    const source = await readFile(file);
    const upload = await call("storage.uploadLink", { bucket, key: "in/source.mp4" });
    expect((await fetch(upload.url, { method: "PUT", body: source })).status).toBe(200);

    // As a key, as the gateway's link, and as the link that expires: private addresses all of them.
    const lasting = (await call("storage.link", { bucket, key: "in/source.mp4" })).url;
    const expiring = (await call("storage.link", { bucket, key: "in/source.mp4", expires: 600 }))
      .url;
    const answer = await fetch(`${url}/compose-timeline-ffmpeg`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({
        timeline: {
          tracks: [
            {
              type: "video",
              clips: ["in/source.mp4", lasting, expiring].map((src) => ({ src, duration: 0.4 })),
            },
          ],
        },
        output: { width: 160, height: 90, fps: 25, quality: "draft" },
      }),
    });
    const { job_id: id } = (await answer.json()) as { job_id: string };
    expect(answer.status).toBeLessThan(300);
    const job = async () => call("scheduler.get", { id });
    await until(async () => ["success", "failed"].includes((await job()).state), {
      what: "the end of the job",
      limitMs: 40_000,
    });
    const { state, error, result, attempt } = await job();
    expect([state, error, attempt]).toEqual(["success", undefined, 1]);
    const output = result?.outputs[0];
    expect(output).toMatchObject({ bucket, key: `jobs/${id}/1/output.mp4` });
    const stored = await call("storage.stat", { bucket, key: output?.key ?? "" });
    expect(stored).toMatchObject({ bytes: output?.bytes, contentType: "video/mp4" });
    // Links went through the mesh, media did not.
    expect([...asked]).toEqual(expect.arrayContaining(["storage.link", "storage.uploadLink"]));
    expect([...asked].filter((name) => /storage\.(read|put)/.test(name))).toEqual([]);
  });

  test("a private address that is not the product's own stays forbidden", async () => {
    const namespace = `${servers.prefix}-guard`;
    const inside = await node(namespace, {
      NODE_ID: "inside",
      SERVICES: "gateway,platform,scheduler",
      ...s3Settings(),
    });
    await node(namespace, { NODE_ID: "gpu", SERVICES: "compose" });
    await inside.broker.waitForServices("compose", 10_000, 50);
    const call = systemCall(inside.broker);
    const other = new URL(servers.s3.endpoint);
    const clips = [
      // The S3 server's own host at another port, a path of it that is no object, and a name that only looks like it.
      `http://${other.hostname}:1/${servers.prefix}-cluster/a.mp4`,
      `${servers.s3.endpoint}/`,
      `http://10.0.0.1/objects/${servers.prefix}-cluster/a.mp4`,
    ];
    for (const src of clips) {
      const { id } = await call("scheduler.submit", {
        kind: "timeline",
        payload: { timeline: { tracks: [{ type: "video", clips: [{ src }] }] } },
      });
      await until(async () => (await call("scheduler.get", { id })).state === "failed", {
        what: `the refusal of ${src}`,
      });
      expect((await call("scheduler.get", { id })).error).toMatchObject({
        type: "ADDRESS_FORBIDDEN",
      });
    }
  });
});

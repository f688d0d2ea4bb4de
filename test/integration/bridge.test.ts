import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { systemCall } from "../../lib/service.ts";
import { endOfJob, type Product, startProduct } from "../support/product.ts";

let product: Product;
let token: string;
beforeAll(async () => {
  product = await startProduct({ FETCH_ALLOW: "127.0.0.1" });
  token = product.config.BRIDGE_TOKEN;
});
afterAll(() => product.stop());

const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  product.request("POST", path, { token, body, headers });
const picture = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFElEQVR4nGOoIBEwjGoY1TB8NQAAY1loECb4YI4AAAAASUVORK5CYII=",
  "base64",
);
const title = {
  timeline: { tracks: [{ type: "text", clips: [{ text: "Hi", duration: 0.2 }] }] },
  output: { width: 64, height: 64, fps: 5, quality: "draft" },
};

const untilEnded = (id: string) => endOfJob(() => product.request("GET", `/jobs/${id}`, { token }));

describe("composition bridge", () => {
  test("answers the bridge's token and nobody else's", async () => {
    for (const path of ["/compose-timeline-ffmpeg", "/compose", "/enhance"]) {
      const anonymous = await product.request("POST", path, { body: {} });
      expect(anonymous.status).toBe(401);
      const agent = await product.request("POST", path, {
        token: product.config.MCP_TOKEN,
        body: {},
      });
      expect(agent.status).toBe(403);
    }
  });

  test("a job that belongs to somebody else looks as if it were not there", async () => {
    const call = systemCall(product.broker);
    const own = await call("scheduler.submit", {
      kind: "noop",
      payload: {},
      owner: "bridge:bridge-token",
    });
    const foreign = await call("scheduler.submit", {
      kind: "noop",
      payload: {},
      owner: "agent:mcp-token",
    });
    const seen = await product.request("GET", `/jobs/${own.id}`, { token });
    expect(seen.status).toBe(200);
    expect(seen.body).toMatchObject({ job_id: own.id, kind: "noop" });
    const hidden = await product.request("GET", `/jobs/${foreign.id}`, { token });
    expect(hidden.status).toBe(404);
    expect(hidden.body.error.type).toBe("JOB_NOT_FOUND");
    expect((await product.request("GET", `/jobs/${randomUUID()}`, { token })).status).toBe(404);
  });

  test("a wrong request is refused by path, and no job exists afterwards", async () => {
    const before = await systemCall(product.broker)("scheduler.list", {});
    const typing = await post("/compose-timeline-ffmpeg", { ...title, outputs: {} });
    expect(typing.status).toBe(400);
    expect(typing.body.error.message).toContain("outputs");
    const missing = await post("/compose-timeline-ffmpeg", {
      timeline: { tracks: [{ type: "video", clips: [{ src: "no/such/object.mp4" }] }] },
    });
    expect(missing.status).toBe(422);
    expect(missing.body.error.message).toContain("timeline.tracks[0].clips[0].src");
    const internal = await post("/compose", { media: [{ src: "http://169.254.169.254/latest" }] });
    expect(internal.status).toBe(422);
    expect(internal.body.error.type).toBe("ADDRESS_FORBIDDEN");
    const run = await post("/compose-timeline-ffmpeg", { ...title, run_id: "no-such-run" });
    expect(run.status).toBe(400);
    expect(run.body.error.message).toContain("no-such-run");
    const after = await systemCall(product.broker)("scheduler.list", {});
    expect(after.jobs.length).toBe(before.jobs.length);
  });

  test("a repeated request with the same Idempotency-Key gets the first job", async () => {
    const headers = { "idempotency-key": "order-1" };
    const first = await post("/compose-timeline-ffmpeg", title, headers);
    expect(first.status).toBe(200);
    expect(first.body).toMatchObject({ repeated: false });
    const second = await post("/compose-timeline-ffmpeg", title, headers);
    expect(second.body).toMatchObject({ job_id: first.body.job_id, repeated: true });
    const other = await post(
      "/compose-timeline-ffmpeg",
      { ...title, output: { width: 32 } },
      headers,
    );
    expect(other.status).toBe(409);
  });

  test("a rendered timeline has a link to a file that can be downloaded", async () => {
    const { body } = await post("/compose-timeline-ffmpeg", title);
    const job = await untilEnded(body.job_id);
    expect(job).toMatchObject({ status: "success", progress: 1 });
    const file = await fetch(job.media_url);
    expect(file.status).toBe(200);
    expect((await file.arrayBuffer()).byteLength).toBe(
      job.outputs.find(({ role }: { role: string }) => role === "media").bytes,
    );
  });

  test("a signed link whose ampersands were escaped on the way is fetched with the ampersands restored", async () => {
    const asked: (string | undefined)[] = [];
    const server = createServer((req, res) => {
      asked.push(req.url);
      res.writeHead(200, { "content-type": "image/png" }).end(picture);
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as { port: number };
    try {
      const src = `http://127.0.0.1:${port}/a.png?Expires=9&amp;Signature=x%3D&amp;Id=1`;
      const { body } = await post("/compose-timeline-ffmpeg", {
        timeline: { tracks: [{ type: "video", clips: [{ src, duration: 0.4 }] }] },
        output: title.output,
      });
      expect(await untilEnded(body.job_id)).toMatchObject({ status: "success" });
      expect(new Set(asked)).toEqual(new Set(["/a.png?Expires=9&Signature=x%3D&Id=1"]));
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  test("subtitles that are none, and a timeline that shows nothing, are refused before a job exists", async () => {
    const subtitles = await post("/compose-timeline-ffmpeg", {
      timeline: { tracks: [{ type: "subtitle", srt: "this is no subtitle file" }] },
    });
    expect(subtitles.status).toBe(400);
    expect(subtitles.body.error).toMatchObject({
      type: "TIMELINE_INVALID",
      message: expect.stringContaining("timeline.tracks[0].srt"),
    });
    const row = await post("/compose", {
      media: [{ src: "https://a.example/b.jpg" }],
      subtitles: "x",
    });
    expect(row.status).toBe(400);
  });
});

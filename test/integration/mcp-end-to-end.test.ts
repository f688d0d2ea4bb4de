import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { systemCall } from "../../lib/service.ts";
import { previewOf } from "../../services/mcp/preview.ts";
import { endOfJob, type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

let product: Product;
let admin: string;
beforeAll(async () => {
  product = await startProduct();
  const login = await product.request("POST", "/auth/admin/login", {
    body: { username: "admin", password: product.config.ADMIN_PASSWORD },
  });
  admin = login.body.responseData?.token;
});
afterAll(() => product.stop());

const tool = async (name: string, args: object, more: object = {}) => {
  const { body } = await product.request("POST", "/mcp/tools/call", {
    token: product.config.MCP_TOKEN,
    body: { name, arguments: args, ...more },
  });
  return body;
};

/** The job as the plain route shows it when it has ended, and what its progress was on the way. */
async function untilEnded(id: string) {
  const seen: number[] = [];
  const token = product.config.MCP_TOKEN;
  const job = await endOfJob(() => product.request("GET", `/mcp/jobs/${id}`, { token }), seen);
  return { job, seen };
}

async function newRun() {
  const app = await product.request("POST", "/agent/admin/app", {
    token: admin,
    body: { name: "Short videos" },
  });
  const run = await product.request("POST", "/agent/admin/run", {
    token: product.config.MCP_TOKEN,
    body: { app_id: app.body.responseData.id },
  });
  return run.body.responseData.id as string;
}

const readRun = async (id: string) =>
  (await product.request("GET", `/agent/admin/run/${id}`, { token: admin })).body.responseData;

const tiny = { width: 64, height: 96, fps: 10, quality: "draft" };

describe("from an agent app run to a finished video", () => {
  test("the run gets status and media_url of the video that was rendered for it", async () => {
    const runId = await newRun();
    const started = await tool(
      "compose_timeline_ffmpeg",
      {
        timeline: { tracks: [{ type: "text", clips: [{ text: "深夜面馆", duration: 1 }] }] },
        output: tiny,
      },
      { run_id: runId },
    );
    expect(started.isError).toBe(false);
    expect(started.job_id).toBe(started.structuredContent.job_id);
    expect((await readRun(runId)).job_id).toBe(started.job_id);

    const { job, seen } = await untilEnded(started.job_id);
    expect(job).toMatchObject({ status: "success", progress: 1 });
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    const file = await fetch(job.media_url);
    expect(file.headers.get("content-type")).toBe("video/mp4");
    const bytes = new Uint8Array(await file.arrayBuffer());
    expect(new TextDecoder().decode(bytes.subarray(4, 8))).toBe("ftyp");

    await until(async () => (await readRun(runId)).media_url !== undefined);
    expect(await readRun(runId)).toMatchObject({ status: "success", media_url: job.media_url });
  });

  test("a repeated call with the same key and run gets the same job; another run cannot take it over", async () => {
    const runId = await newRun();
    const args = {
      timeline: { tracks: [{ type: "text", clips: [{ text: "Once", duration: 0.4 }] }] },
      output: tiny,
      idempotency_key: "once",
      run_id: runId,
    };
    const first = await tool("compose_timeline_ffmpeg", args);
    await untilEnded(first.job_id);
    const again = await tool("compose_timeline_ffmpeg", args);
    expect(again.structuredContent).toMatchObject({ job_id: first.job_id, repeated: true });
    expect(await readRun(runId)).toMatchObject({ status: "success", job_id: first.job_id });
    const other = await newRun();
    const taken = await tool("compose_timeline_ffmpeg", { ...args, run_id: other });
    expect(taken.error.type).toBe("IDEMPOTENCY_MISMATCH");
    expect((await readRun(other)).job_id).toBeUndefined();
  });

  test("preview_job shows the video as an image with the times of its pictures", async () => {
    const started = await tool("compose_timeline_ffmpeg", {
      timeline: { tracks: [{ type: "text", clips: [{ text: "Hi", duration: 2 }] }] },
      output: tiny,
    });
    const waited = await tool("jobs_wait", { job_id: started.job_id, timeout_seconds: 15 });
    expect(waited.structuredContent).toMatchObject({ ended: true, status: "success" });
    const preview = await tool("preview_job", { job_id: started.job_id });
    const [image, text] = preview.content;
    expect(image).toMatchObject({ type: "image", mimeType: "image/png" });
    expect(Buffer.from(image.data, "base64").subarray(1, 4).toString()).toBe("PNG");
    expect(preview.structuredContent.image).toBeUndefined();
    const { times_ms, columns, duration_ms, image_url } = preview.structuredContent;
    expect(JSON.parse(text.text).times_ms).toEqual(times_ms);
    expect(columns).toBe(4);
    expect(times_ms).toHaveLength(12);
    expect(Math.max(...times_ms)).toBeLessThan(duration_ms);
    expect((await fetch(image_url)).status).toBe(200);
  });

  test("a preview of a job that failed says why, and of one that still runs says to wait", async () => {
    const call = systemCall(product.broker);
    const owner = "agent:mcp-token";
    const broken = await call("scheduler.submit", {
      kind: "enhance",
      payload: { src: "no/such/object.mp4" },
      owner,
      attemptsMax: 1,
    });
    const { job } = await untilEnded(broken.id);
    expect(job.status).toBe("failed");
    const failed = await tool("preview_job", { job_id: broken.id });
    expect(failed.isError).toBe(true);
    expect(failed.content[0].text).toContain(job.error.message);

    const slow = await call("scheduler.submit", { kind: "noop", payload: { ms: 60_000 }, owner });
    const early = await tool("preview_job", { job_id: slow.id });
    expect(early.content[0].text).toContain("jobs_wait");
    await tool("jobs_cancel", { job_id: slow.id });
    const unknown = await tool("preview_job", { job_id: "3f0c6f0e-8f0b-4f6e-9a53-0c6f0e8f0b4f" });
    expect(unknown.error).toMatchObject({ type: "JOB_NOT_FOUND", retry: "never" });
  });

  test("a video that was stored without a sheet gets one when somebody wants to see it, once", async () => {
    const started = await tool("compose_timeline_ffmpeg", {
      timeline: { tracks: [{ type: "text", clips: [{ text: "Hi", duration: 0.5 }] }] },
      output: tiny,
    });
    const { job } = await untilEnded(started.job_id);
    const media = job.outputs.find(({ role }: { role: string }) => role === "media");
    const call = systemCall(product.broker);
    const bare = { ...media, contentType: "video/mp4" };
    const view = await call("scheduler.get", { id: job.job_id });
    const withoutSheet = {
      ...view,
      result: { ...view.result!, outputs: [bare] },
    };
    const asked: string[] = [];
    const ctx = {
      params: { job_id: job.job_id },
      meta: { actor: { realm: "agent", id: "mcp-token" } },
      call: (name: string, params: { id?: string; kind?: string }) => {
        if (name === "scheduler.submit") asked.push(params.kind ?? "");
        return name === "scheduler.get" && params.id === job.job_id
          ? Promise.resolve(withoutSheet)
          : call(name as never, params as never);
      },
    };
    const host = { config: product.config };
    const first = await previewOf(ctx as never, host as never);
    expect(first.times_ms).toHaveLength(5);
    expect(Buffer.from(first.image!.data, "base64").subarray(1, 4).toString()).toBe("PNG");
    const second = await previewOf(ctx as never, host as never);
    expect(second.image_url).toBe(first.image_url);
    expect(asked).toEqual(["contact-sheet", "contact-sheet"]);
  });

  test("a generated storyboard renders as it is", async () => {
    const planned = await tool("generate_storyboard", {
      script: "Night falls. Come in.",
      duration_seconds: 3,
      quality: "draft",
    });
    expect(planned.isError).toBe(false);
    const { request, scenes, storyboard_id, source } = planned.structuredContent;
    expect(source).toBe("script");
    expect(scenes).toHaveLength(2);
    const stored = await product.request("GET", `/aigc/admin/storyboard/${storyboard_id}`, {
      token: admin,
    });
    expect(stored.body.responseData.scenes.map(({ text }: { text: string }) => text)).toEqual([
      "Night falls.",
      "Come in.",
    ]);
    const started = await tool("compose_timeline_ffmpeg", {
      ...request,
      output: { ...request.output, ...tiny },
    });
    const { job } = await untilEnded(started.job_id);
    expect(job).toMatchObject({ status: "success", info: { frames: 30 } });
  });
});

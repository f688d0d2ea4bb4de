import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Config } from "../../lib/config.ts";
import { findFfmpeg } from "../../services/compose/media/ffmpeg.ts";
import { Client } from "./client.ts";
import {
  mediaKind,
  output,
  ownTimeline,
  sampleFrames,
  sampleTimeline,
  type Uploaded,
  uploadKey,
} from "./timeline.ts";

const run = promisify(execFile);
const samples = fileURLToPath(new URL("../../samples/", import.meta.url));
const sample = {
  sea: "sea.mp4",
  coffee: "coffee.jpg",
  pool: "pool.jpg",
  voice: "voice.m4a",
  music: "music.m4a",
};
type SampleName = keyof typeof sample;

export interface DemoRequest {
  config: Config;
  url: string;
  /** The user's own files; none: the samples. */
  files: readonly string[];
  out: string;
  signal: AbortSignal;
}

interface JobAnswer {
  job_id: string;
  status: string;
  progress: number;
  stage?: string;
  media_url?: string;
  error?: { message: string };
  info?: { frames?: number };
}

interface ToolAnswer {
  isError: boolean;
  job_id?: string;
  content: { type: string; text?: string; data?: string }[];
}

function bar(progress: number, stage: string): void {
  const cells = Math.round(progress * 30);
  const text = `render     [${"█".repeat(cells)}${"░".repeat(30 - cells)}] ${String(Math.round(progress * 100)).padStart(3)} %  ${stage}`;
  if (process.stdout.isTTY) process.stdout.write(`\r${text.padEnd(72)}`);
  else console.log(text);
}

/** Polls the job until it has ended; the bar moves when something has changed. */
async function follow(
  client: Client,
  jobId: string,
  token: string,
  signal: AbortSignal,
): Promise<JobAnswer> {
  let shown = "";
  for (;;) {
    if (signal.aborted)
      throw new Error("interrupted; the job goes on when the product is started again");
    const job = await client.request<JobAnswer>("GET", `/mcp/jobs/${jobId}`, token);
    const stage = job.status === "running" ? (job.stage ?? "running") : job.status;
    const step = `${Math.round(job.progress * 30)} ${stage}`;
    if (step !== shown) bar(job.status === "success" ? 1 : job.progress, stage);
    shown = step;
    if (job.status !== "pending" && job.status !== "running") {
      if (process.stdout.isTTY) console.log();
      if (job.status !== "success")
        throw new Error(
          `the job ended as ${job.status}: ${job.error?.message ?? "no reason given"}`,
        );
      return job;
    }
    await delay(250);
  }
}

/** Streams, exact frame count and duration of what came back, by ffprobe and not by the product's own word. */
async function check(config: Config, file: string, expected: { frames?: number }): Promise<string> {
  const { ffprobe } = await findFfmpeg(config);
  const { stdout } = await run(ffprobe, [
    "-v",
    "error",
    "-count_packets",
    "-show_streams",
    "-show_format",
    "-of",
    "json",
    file,
  ]);
  const { streams, format } = JSON.parse(stdout) as {
    streams: {
      codec_type: string;
      codec_name: string;
      width?: number;
      height?: number;
      nb_read_packets: string;
      r_frame_rate: string;
      sample_rate?: string;
    }[];
    format: { duration: string; size: string };
  };
  const video = streams.find((stream) => stream.codec_type === "video");
  const audio = streams.find((stream) => stream.codec_type === "audio");
  if (!video || !audio) throw new Error("the video lacks a picture or a sound stream");
  if (video.width !== output.width || video.height !== output.height)
    throw new Error(`the picture is ${video.width}x${video.height}`);
  const frames = Number(video.nb_read_packets);
  const seconds = Number(format.duration);
  if (expected.frames !== undefined && frames !== expected.frames)
    throw new Error(`the video has ${frames} frames, not ${expected.frames}`);
  if (Math.abs(seconds - frames / output.fps) > 1 / output.fps)
    throw new Error(`${frames} frames, but ${seconds} s`);
  return `${video.codec_name} ${video.width}x${video.height}, ${frames} frames at ${output.fps}/s = ${seconds.toFixed(2)} s, ${audio.codec_name} ${audio.sample_rate} Hz, ${(Number(format.size) / 1e6).toFixed(1)} MB`;
}

async function uploadAll(
  client: Client,
  bucket: string,
  files: readonly string[],
  token: string,
): Promise<string[]> {
  const now = Date.now();
  return Promise.all(
    files.map((file, index) => client.upload(file, bucket, uploadKey(file, now + index), token)),
  );
}

async function timelineOf({ files, config }: DemoRequest, client: Client, token: string) {
  const bucket = config.OSS_BUCKET_NAME;
  const names = Object.keys(sample) as SampleName[];
  if (files.length === 0) {
    const sources = await uploadAll(
      client,
      bucket,
      names.map((name) => join(samples, sample[name])),
      token,
    );
    console.log(`material   ${sources.length} sample files uploaded`);
    return sampleTimeline(
      Object.fromEntries(names.map((name, index) => [name, sources[index]])) as Record<
        SampleName,
        string
      >,
    );
  }
  const unknown = files.find((file) => !mediaKind(file));
  if (unknown) throw new Error(`${unknown}: neither a picture, a clip nor a sound by its name`);
  if (!files.some((file) => mediaKind(file) !== "audio"))
    throw new Error("give at least one picture or clip");
  const sources = await uploadAll(client, bucket, [...files, join(samples, sample.music)], token);
  console.log(`material   ${files.length} files uploaded`);
  const uploaded = files.map(
    (file, index) => ({ file, kind: mediaKind(file), src: sources[index] }) as Uploaded,
  );
  return ownTimeline(uploaded, sources.at(-1) as string);
}

/** App, run, tool call, polling, download, check: every step is a request that any client could send. */
export async function makeDemo(request: DemoRequest): Promise<{ video: string; sheet: Buffer }> {
  const { config, url, out, signal } = request;
  const client = new Client(url);
  const { token } = await client.platform<{ token: string }>(
    "POST",
    "/auth/admin/login",
    undefined,
    {
      username: "admin",
      password: config.ADMIN_PASSWORD,
    },
  );
  const app = await client.platform<{ id: string }>("POST", "/agent/admin/app", token, {
    name: "demo",
  });
  const runRecord = await client.platform<{ id: string }>("POST", "/agent/admin/run", token, {
    app_id: app.id,
  });
  console.log(`run        ${runRecord.id}`);
  const timeline = await timelineOf(request, client, config.MCP_TOKEN);
  const called = await client.request<ToolAnswer>("POST", "/mcp/tools/call", config.MCP_TOKEN, {
    name: "compose_timeline_ffmpeg",
    arguments: { timeline, output, run_id: runRecord.id },
  });
  if (called.isError || !called.job_id)
    throw new Error(called.content.map((part) => part.text).join("\n"));
  console.log(`job        ${called.job_id}`);
  const job = await follow(client, called.job_id, config.MCP_TOKEN, signal);
  if (!job.media_url) throw new Error("the job succeeded, but has no media_url");
  const video = join(out, "demo.mp4");
  await client.download(job.media_url, video);
  console.log(
    `checked    ${await check(config, video, {
      frames: request.files.length === 0 ? sampleFrames : job.info?.frames,
    })}`,
  );
  const preview = await client.request<ToolAnswer>("POST", "/mcp/tools/call", config.MCP_TOKEN, {
    name: "preview_job",
    arguments: { job_id: called.job_id },
  });
  const image = preview.content.find((part) => part.type === "image")?.data;
  if (!image) throw new Error(preview.content.map((part) => part.text).join("\n"));
  await client.platform("GET", "/auth/admin/logout", token);
  return { video, sheet: Buffer.from(image, "base64") };
}

import { join } from "node:path";
import { AppError } from "../../lib/errors.ts";
import type { JobResult } from "../scheduler/job.types.ts";
import { EnhancePayload } from "./enhance.payload.ts";
import { type EnhancePlan, planEnhance } from "./enhance.plan.ts";
import type { Executor, ExecutorTools } from "./executor.ts";
import { findFfmpeg } from "./media/ffmpeg.ts";
import { runCommand } from "./media/ffmpeg-command.ts";
import { findGpuEncoder } from "./media/gpu-encoder.ts";
import { gpuSideMax, type H264Encoder, h264Args } from "./media/h264.policy.ts";
import { bringAll, type LocalSource } from "./media/localise.ts";
import { inputArgs } from "./media/probe-facts.policy.ts";
import { type RenderFacts, readRender } from "./media/verify-render.ts";

/** Shares of the progress bar; fetching is a guess, rendering is counted in frames. */
const fetched = 0.1;
const rendered = 0.95;

async function enhanceImage(source: LocalSource, plan: EnhancePlan, tools: ExecutorTools) {
  const png = source.facts.hasAlpha || source.facts.format === "PNG";
  const name = png ? "enhanced.png" : "enhanced.jpg";
  const file = join(tools.workDir, name);
  await runCommand(
    {
      inputs: [{ args: inputArgs(source.facts), file: source.file }],
      filterGraph: `[0:v]${plan.filters}[v]`,
      // biome-ignore format: option and value side by side
      outputArgs: ["-map", "[v]", "-frames:v", "1", "-f", "image2", "-update", "1",
        ...(png ? ["-c:v", "png"] : ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p", "-q:v", "2"])],
      output: file,
    },
    tools,
  );
  const contentType = png ? "image/png" : "image/jpeg";
  return [await tools.upload(file, { name, contentType, role: "media" })];
}

async function encodeVideo(
  source: LocalSource,
  plan: EnhancePlan,
  task: EnhancePayload,
  encoder: H264Encoder,
  file: string,
  tools: ExecutorTools,
) {
  const { facts } = source;
  const sound = facts.hasAudio
    ? ["-map", "0:a:0", ...(plan.copyAudio ? ["-c:a", "copy"] : ["-c:a", "aac", "-b:a", "192k"])]
    : [];
  await runCommand(
    {
      inputs: [{ args: inputArgs(facts), file: source.file }],
      filterGraph: `[0:v:0]${plan.filters},format=yuv420p[v]`,
      // biome-ignore format: option and value side by side
      outputArgs: ["-map", "[v]", ...sound, ...h264Args(encoder, task.quality),
        "-fps_mode", task.fps ? "cfr" : "vfr", ...(task.fps ? ["-r", String(task.fps)] : []),
        "-g", "60", "-movflags", "+faststart", "-map_metadata", "-1", "-f", "mp4"],
      output: file,
    },
    tools,
    {
      totalFrames: plan.frames,
      totalMs: facts.durationMs,
      onProgress: ({ fraction }) =>
        tools.progress(fetched + (rendered - fetched) * fraction, "rendering"),
    },
  );
}

/** With hardware where there is some and it takes the size; should it fail, without. */
async function encodeWithBest(
  source: LocalSource,
  plan: EnhancePlan,
  task: EnhancePayload,
  file: string,
  tools: ExecutorTools,
): Promise<H264Encoder> {
  const gpu =
    Math.max(plan.width, plan.height) <= gpuSideMax
      ? await findGpuEncoder(await findFfmpeg(tools.config))
      : undefined;
  if (gpu) {
    try {
      await encodeVideo(source, plan, task, gpu, file, tools);
      return gpu;
    } catch (error) {
      if (tools.signal.aborted) throw error;
      tools.log("warn", `${gpu} failed (${(error as Error).message}); using libx264`);
    }
  }
  await encodeVideo(source, plan, task, "libx264", file, tools);
  return "libx264";
}

function check(found: RenderFacts, source: LocalSource, plan: EnhancePlan, task: EnhancePayload) {
  const { facts } = source;
  const frameMs = 1000 / (task.fps ?? (facts.fps ? facts.fps.num / facts.fps.den : 1));
  const wrong = [
    found.width !== plan.width || found.height !== plan.height
      ? `${found.width}x${found.height} instead of ${plan.width}x${plan.height}`
      : "",
    found.hasAudio !== facts.hasAudio ? "the sound got lost" : "",
    found.frames === 0 ? "no frames" : "",
    Math.abs(found.durationMs - facts.durationMs) > 2 * frameMs + 100
      ? `the picture lasts ${found.durationMs} ms instead of ${facts.durationMs}`
      : "",
  ].filter(Boolean);
  if (wrong.length > 0) throw new AppError("RENDER_INEXACT", { reason: wrong.join("; ") });
}

async function enhanceVideo(
  source: LocalSource,
  plan: EnhancePlan,
  task: EnhancePayload,
  tools: ExecutorTools,
): Promise<Omit<JobResult, "hash">> {
  const file = join(tools.workDir, "enhanced.mp4");
  const encoder = await encodeWithBest(source, plan, task, file, tools);
  const found = await readRender(file, tools);
  check(found, source, plan, task);
  tools.progress(rendered, "uploading");
  const outputs = [
    await tools.upload(file, { name: "enhanced.mp4", contentType: "video/mp4", role: "media" }),
  ];
  return { outputs, info: { kind: "video", encoder, ...found } };
}

/** Upscales, cleans and sharpens one video or image (operations document, section 4: `/enhance`). */
export const enhanceExecutor: Executor<typeof EnhancePayload> = {
  kind: "enhance",
  payload: EnhancePayload,
  async execute(task, tools) {
    tools.progress(0, "fetching");
    const [source] = await bringAll([{ src: task.src, clip: "src", expected: "picture" }], tools);
    if (!source) throw new AppError("INVALID_INPUT", { reason: "src: there is no source" });
    const plan = planEnhance(source.facts, task);
    if ("reason" in plan) throw new AppError("INVALID_INPUT", { reason: plan.reason });
    tools.progress(fetched, "rendering");
    if (source.facts.kind === "video") return enhanceVideo(source, plan, task, tools);
    const outputs = await enhanceImage(source, plan, tools);
    return { outputs, info: { kind: "image", width: plan.width, height: plan.height } };
  },
};

import { AppError } from "../../../lib/errors.ts";
import type { ExecutorTools } from "../executor.ts";
import { findFfmpeg } from "./ffmpeg.ts";
import { failureReason } from "./ffmpeg-failure.policy.ts";

export interface ExpectedRender {
  frames: number;
  width: number;
  height: number;
  /** As a fraction, "30/1" or "30000/1001". */
  fps: string;
  hasAudio: boolean;
  durationMs: number;
}

/** What the check found; goes into the job's result. */
export interface RenderFacts {
  frames: number;
  width: number;
  height: number;
  fps: string;
  durationMs: number;
  hasAudio: boolean;
  /** Start of the sound after the start of the picture. */
  audioOffsetMs: number;
  audioDurationMs: number;
}

interface Stream {
  codec_type: string;
  width?: number;
  height?: number;
  r_frame_rate?: string;
  nb_read_packets?: string;
  start_time?: string;
  duration?: string;
}

const milliseconds = (text: string | undefined) => Math.round(Number(text ?? 0) * 1000);
/** One AAC frame at 48 kHz is 21.3 ms; encoders add up to three. */
const audioSlackMs = 64;

function differences(found: RenderFacts, expected: ExpectedRender): string[] {
  const frameMs = expected.durationMs / Math.max(1, expected.frames);
  const wrong: string[] = [];
  if (found.frames !== expected.frames)
    wrong.push(`${found.frames} frames instead of ${expected.frames}`);
  if (found.width !== expected.width || found.height !== expected.height)
    wrong.push(`${found.width}x${found.height} instead of ${expected.width}x${expected.height}`);
  if (ratio(found.fps) !== ratio(expected.fps))
    wrong.push(`${found.fps} frames a second instead of ${expected.fps}`);
  if (Math.abs(found.durationMs - expected.durationMs) > frameMs / 2 + 1)
    wrong.push(`the picture lasts ${found.durationMs} ms instead of ${expected.durationMs}`);
  if (found.hasAudio !== expected.hasAudio)
    wrong.push(found.hasAudio ? "sound where there should be none" : "no sound");
  if (found.hasAudio && Math.abs(found.audioOffsetMs) > Math.max(frameMs, audioSlackMs / 3))
    wrong.push(`the sound starts ${found.audioOffsetMs} ms off the picture`);
  if (
    found.hasAudio &&
    Math.abs(found.audioDurationMs - expected.durationMs) > frameMs + audioSlackMs
  )
    wrong.push(`the sound lasts ${found.audioDurationMs} ms instead of ${expected.durationMs}`);
  return wrong;
}

const ratio = (text: string): number => {
  const [num = 0, den = 1] = text.split("/").map(Number);
  return Math.round((num / den) * 1e6);
};

/** What a rendered MP4 or MOV is, every frame counted. */
export async function readRender(
  file: string,
  tools: Pick<ExecutorTools, "config" | "run">,
): Promise<RenderFacts> {
  const { ffprobe } = await findFfmpeg(tools.config);
  const lines: string[] = [];
  const exit = await tools.run(
    ffprobe,
    // biome-ignore format: option and value side by side
    ["-v", "error", "-protocol_whitelist", "file", "-f", "mov", "-count_packets", "-show_entries",
      "stream=codec_type,width,height,r_frame_rate,nb_read_packets,start_time,duration",
      "-of", "json=compact=1", file],
    { onLine: (line) => lines.push(line) },
  );
  if (exit.code !== 0)
    throw new AppError("RENDER_INEXACT", { reason: failureReason(exit.stderrTail) });
  const { streams = [] } = JSON.parse(lines.join("\n")) as { streams?: Stream[] };
  const video = streams.find((stream) => stream.codec_type === "video");
  const audio = streams.find((stream) => stream.codec_type === "audio");
  if (!video) throw new AppError("RENDER_INEXACT", { reason: "there is no picture in it" });
  return {
    frames: Number(video.nb_read_packets ?? 0),
    width: video.width ?? 0,
    height: video.height ?? 0,
    fps: video.r_frame_rate ?? "0/1",
    durationMs: milliseconds(video.duration),
    hasAudio: !!audio,
    audioOffsetMs: audio ? milliseconds(audio.start_time) - milliseconds(video.start_time) : 0,
    audioDurationMs: milliseconds(audio?.duration),
  };
}

/**
 * Checks a rendered file against what was planned: every frame counted, size, rate, length, sound and
 * where it starts (design, section 5).
 * @throws AppError RENDER_INEXACT naming each difference.
 */
export async function verifyRender(
  file: string,
  expected: ExpectedRender,
  tools: Pick<ExecutorTools, "config" | "run">,
): Promise<RenderFacts> {
  const found = await readRender(file, tools);
  const wrong = differences(found, expected);
  if (wrong.length > 0) throw new AppError("RENDER_INEXACT", { reason: wrong.join("; ") });
  return found;
}

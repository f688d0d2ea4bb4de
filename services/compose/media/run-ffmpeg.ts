import { AppError } from "../../../lib/errors.ts";
import type { ExecutorTools } from "../executor.ts";
import { findFfmpeg } from "./ffmpeg.ts";
import { failureError } from "./ffmpeg-failure.policy.ts";

export interface FfmpegProgress {
  /** 0 to 1; 0 where the length is not known. */
  fraction: number;
  frame: number;
  outMs: number;
  /** Times real time. */
  speed?: number;
}

export interface RunFfmpegOptions {
  /** Length of the output in frames, for the fraction. */
  totalFrames?: number;
  /** Length of the output in milliseconds; used where there are no frames. */
  totalMs?: number;
  onProgress?: (progress: FfmpegProgress) => void;
}

type RunTools = Pick<ExecutorTools, "config" | "run" | "workDir">;

/** Options that every FFmpeg process gets: no questions, no banner, progress on standard output. */
export const baseArgs = ["-hide_banner", "-nostdin", "-nostats", "-y", "-v", "error"] as const;
export const progressArgs = ["-progress", "pipe:1"] as const;

/** Reads the key=value blocks of `-progress` line by line. */
export function progressReader({ totalFrames, totalMs, onProgress }: RunFfmpegOptions) {
  const block = new Map<string, string>();
  return (line: string) => {
    const at = line.indexOf("=");
    if (at < 0) return;
    block.set(line.slice(0, at).trim(), line.slice(at + 1).trim());
    if (!line.startsWith("progress=")) return;
    const frame = Number(block.get("frame")) || 0;
    const outMs = (Number(block.get("out_time_us")) || 0) / 1000;
    const done = totalFrames ? frame / totalFrames : totalMs ? outMs / totalMs : 0;
    const speed = Number.parseFloat(block.get("speed") ?? "");
    onProgress?.({
      fraction: Math.min(1, Math.max(0, done)),
      frame,
      outMs: Math.max(0, Math.round(outMs)),
      speed: Number.isFinite(speed) ? speed : undefined,
    });
    block.clear();
  };
}

/**
 * Runs FFmpeg in a process group of the attempt, with progress. `args` are inputs, filters and outputs.
 * @throws AppError DISK_FULL, or RENDER_FAILED with FFmpeg's own reason and no path of this machine.
 */
export async function runFfmpeg(
  args: readonly string[],
  tools: RunTools,
  options: RunFfmpegOptions = {},
): Promise<void> {
  const { ffmpeg } = await findFfmpeg(tools.config);
  const exit = await tools.run(ffmpeg, [...baseArgs, ...progressArgs, ...args], {
    cwd: tools.workDir,
    onLine: progressReader(options),
  });
  if (exit.code === 0) return;
  const { type, data } = failureError(exit);
  throw new AppError(type, data);
}

import { factsOf } from "./clip.plan.ts";
import type { Facts, RenderPlan } from "./plan.types.ts";
import { timelineError } from "./timeline-error.ts";

/** Inputs up to which decoders get more than one thread. */
const threadedMax = 64;

/**
 * Threads of each decoder; none: as FFmpeg chooses, one for each core. Two take the decoding off the thread that runs
 * the filters, which in FFmpeg 5.1 otherwise does both; more make no render faster whose clips come one after another,
 * and each keeps pictures in memory, which counts where hundreds of inputs are open.
 */
export function decoderThreads(inputs: number): number | undefined {
  if (inputs <= 12) return undefined;
  return inputs <= threadedMax ? 2 : 1;
}

/** Frames that FFmpeg keeps of each open video; measured: 5 with release 5.1, 12 with 7.0, and 15 with a second thread. */
const framesPerVideo = (videos: number) => (videos > threadedMax ? 12 : 15);
const bytesPerVideoPixel = 1.5;
const bytesPerStillPixel = 4;

/** Memory that the open sources of a plan take. FFmpeg opens all of them at once. */
export function sourceBytes(plan: RenderPlan, facts: Facts): number {
  const pieces = [...plan.main, ...plan.overlays].map(({ piece }) => piece);
  const sources = pieces.flatMap((piece) =>
    piece.type === "picture" ? piece.takes.map(({ src }) => src) : [],
  );
  const bytesPerVideo = framesPerVideo(sources.length) * bytesPerVideoPixel;
  return sources.reduce((sum, src) => {
    const { width, height, kind } = factsOf(facts, src, src);
    return sum + width * height * (kind === "image" ? bytesPerStillPixel : bytesPerVideo);
  }, 0);
}

/**
 * Refuses what this machine could only begin and not finish.
 * @throws AppError TIMELINE_INVALID with the numbers.
 */
export function checkMemory(plan: RenderPlan, facts: Facts, bytesMax: number): void {
  const bytes = sourceBytes(plan, facts);
  if (bytes <= bytesMax) return;
  const gigabytes = (n: number) => (n / 1e9).toFixed(1);
  throw timelineError(
    "timeline",
    `its pictures need about ${gigabytes(bytes)} GB of memory at once, and the node gives a render ${gigabytes(bytesMax)} GB; use fewer or smaller sources, or render it in parts`,
  );
}

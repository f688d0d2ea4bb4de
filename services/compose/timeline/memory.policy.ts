import { factsOf } from "./clip.plan.ts";
import type { Facts, RenderPlan } from "./plan.types.ts";
import { timelineError } from "./timeline-error.ts";

/** Frames that FFmpeg keeps of each open video; measured: 5 with release 5.1, 12 with 7.0. */
const framesPerVideo = 12;
const bytesPerVideoPixel = 1.5;
const bytesPerStillPixel = 4;

/** Memory that the open sources of a plan take. FFmpeg opens all of them at once. */
export function sourceBytes(plan: RenderPlan, facts: Facts): number {
  const pieces = [...plan.main, ...plan.overlays].map(({ piece }) => piece);
  return pieces
    .flatMap((piece) => (piece.type === "picture" ? piece.takes.map(({ src }) => src) : []))
    .reduce((sum, src) => {
      const { width, height, kind } = factsOf(facts, src, src);
      const each = kind === "image" ? bytesPerStillPixel : framesPerVideo * bytesPerVideoPixel;
      return sum + width * height * each;
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

import type { EnhancePayload } from "./enhance.payload.ts";
import type { MediaFacts } from "./media/probe-facts.policy.ts";

export interface EnhancePlan {
  width: number;
  height: number;
  /** Filters of the picture, in order. */
  filters: string;
  /** The sound can go into an MP4 as it is. */
  copyAudio: boolean;
  /** Frames of the result as far as can be told, for progress. */
  frames?: number;
}

const sideMax = 7680;
const pixelsMax = 7680 * 4320;
const even = (value: number) => Math.max(16, Math.round(value / 2) * 2);
/** Sound that players expect in an MP4. */
const mp4Sound = ["aac", "mp3", "ac3", "eac3", "alac"];

/** Width and height of the upright source as it is meant to be seen, with square pixels. */
function shownSize(facts: MediaFacts): { width: number; height: number } {
  const { num, den } = facts.pixelAspect;
  const turned = facts.uprightFilters.startsWith("transpose");
  const stretch = num / den;
  return turned
    ? { width: facts.width, height: facts.height * stretch }
    : { width: facts.width * stretch, height: facts.height };
}

/** How a source becomes larger and clearer, or why it cannot be made that large. */
export function planEnhance(
  facts: MediaFacts,
  task: EnhancePayload,
): EnhancePlan | { reason: string } {
  const shown = shownSize(facts);
  const factor =
    task.width || task.height
      ? Math.min((task.width ?? Infinity) / shown.width, (task.height ?? Infinity) / shown.height)
      : (task.scale ?? 2);
  const width = even(shown.width * factor);
  const height = even(shown.height * factor);
  if (Math.max(width, height) > sideMax || width * height > pixelsMax)
    return {
      reason: `the result would be ${width}x${height}; at most ${sideMax} a side and ${pixelsMax} pixels. Give a smaller scale, or width or height`,
    };
  const filters = [
    facts.uprightFilters,
    // A common time base first: releases differ by a frame otherwise.
    task.fps && facts.kind === "video" ? `settb=AVTB,fps=${task.fps}` : "",
    // The filter knows no transparency; a logo has no noise.
    task.denoise > 0 && !facts.hasAlpha ? denoise(task.denoise) : "",
    `scale=${width}:${height}:flags=lanczos+accurate_rnd`,
    facts.kind === "image" ? `format=${facts.hasAlpha ? "gbrap" : "gbrp"}` : "",
    // Adapts to the contrast around each pixel, so that edges get no halo; its last fifth is garish.
    task.sharpen > 0 ? `cas=${(task.sharpen * 0.8).toFixed(2)}` : "",
    "setsar=1",
  ];
  return {
    width,
    height,
    filters: filters.filter(Boolean).join(","),
    copyAudio: mp4Sound.includes(facts.audio?.codec ?? ""),
    frames: task.fps ? Math.round((facts.durationMs / 1000) * task.fps) : facts.frames,
  };
}

/** Spatial and temporal strength; 1 is as strong as it goes before faces turn to wax. */
const denoise = (strength: number): string =>
  `hqdn3d=${[6, 4.5, 9, 6.75].map((most) => (most * strength).toFixed(2)).join(":")}`;

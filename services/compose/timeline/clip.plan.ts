import type { MediaFacts } from "../media/probe-facts.policy.ts";
import { TimelineLimits } from "./config.ts";
import type { Facts, PicturePiece, Take } from "./plan.types.ts";
import { frameAt, type Rate, secondsText, toUs, type Us } from "./time.plan.ts";
import type { OverlayClip, VideoClip } from "./timeline.schema.ts";
import { timelineError } from "./timeline-error.ts";

export type PictureClip = VideoClip | OverlayClip;

/** The part of a source that a clip uses. */
export interface UsedRange {
  fromUs: Us;
  /** Source time from there to the end of the part. */
  lengthUs: Us;
}

export function factsOf(facts: Facts, src: string, path: string): MediaFacts {
  const found = facts.get(src);
  if (!found) throw timelineError(path, `its source ${src} was not probed`);
  return found;
}

/** Length of the picture; by its frame count where that is known, since containers round durations. */
function pictureUs(facts: MediaFacts): Us {
  const { fps, frames, vfr, durationMs } = facts;
  const counted = fps && frames && !vfr ? Math.round((frames * fps.den * 1e6) / fps.num) : 0;
  // A count that contradicts the duration belongs to a broken index.
  return counted && Math.abs(counted - durationMs * 1000) < 100_000 ? counted : durationMs * 1000;
}

/** Tolerance for a trim end past the end of the source, for durations that somebody rounded. */
const pastEndUs = 50_000;

/**
 * Cuts a trim to what the source has.
 * @throws AppError TIMELINE_INVALID when it lies outside of the source.
 */
export function usedRange(
  trim: { start: number; end?: number } | undefined,
  sourceUs: Us,
  path: string,
): UsedRange {
  const fromUs = toUs(trim?.start ?? 0);
  const endUs = trim?.end === undefined ? sourceUs : toUs(trim.end);
  if (fromUs >= sourceUs)
    throw timelineError(
      `${path}.trim.start`,
      `${secondsText(fromUs)} is not before the end of the source, which has ${secondsText(sourceUs)} seconds`,
    );
  if (endUs > sourceUs + pastEndUs)
    throw timelineError(
      `${path}.trim.end`,
      `${secondsText(endUs)} is past the end of the source, which has ${secondsText(sourceUs)} seconds`,
    );
  return { fromUs, lengthUs: Math.min(endUs, sourceUs) - fromUs };
}

export interface PlacedClip {
  startUs: Us;
  endUs: Us;
  used: UsedRange;
  still: boolean;
  facts: MediaFacts;
}

function checkKind(clip: PictureClip, facts: MediaFacts, path: string) {
  if (!facts.hasVideo)
    throw timelineError(path, "its source has no picture; put it into a track of type audio");
  if (clip.kind && clip.kind !== facts.kind)
    throw timelineError(`${path}.kind`, `is "${clip.kind}", but the source is ${facts.kind}`);
}

/** Start and end of a clip on the timeline, before the frame grid. */
export function placeClip(
  clip: PictureClip,
  facts: MediaFacts,
  startUs: Us,
  path: string,
): PlacedClip {
  checkKind(clip, facts, path);
  const still = facts.kind === "image";
  if (still) {
    const lengthUs = toUs(clip.duration ?? TimelineLimits.imageS);
    const used = { fromUs: 0, lengthUs };
    return { startUs, endUs: startUs + lengthUs, used, still, facts };
  }
  const used = usedRange(clip.trim, pictureUs(facts), path);
  const lengthUs =
    clip.duration === undefined ? Math.round(used.lengthUs / clip.speed) : toUs(clip.duration);
  return { startUs, endUs: startUs + lengthUs, used, still, facts };
}

/** The takes of a clip of so many frames: one, or several where a short video is to be repeated. */
export function takesOf(
  clip: PictureClip,
  placed: PlacedClip,
  frames: number,
  rate: Rate,
  path: string,
): Take[] {
  const take = { src: clip.src, fromUs: placed.used.fromUs, speed: clip.speed };
  if (placed.still) return [{ ...take, fromUs: 0, speed: 1, frames }];
  const has = Math.max(1, frameAt(placed.used.lengthUs / clip.speed, rate));
  if (has >= frames || clip.fill === "freeze") return [{ ...take, frames: Math.min(has, frames) }];
  const count = Math.ceil(frames / has);
  if (count > TimelineLimits.takes)
    throw timelineError(
      `${path}.fill`,
      `would repeat the source ${count} times; at most ${TimelineLimits.takes}`,
    );
  return Array.from({ length: count }, (_, n) => ({
    ...take,
    frames: Math.min(has, frames - n * has),
  }));
}

/** Fades in frames; together they may not be longer than the clip. */
export function fadesOf(
  clip: PictureClip,
  frames: number,
  rate: Rate,
  path: string,
): Pick<PicturePiece, "fadeInFrames" | "fadeOutFrames"> {
  const fadeInFrames = frameAt(toUs(clip.fadeIn ?? 0), rate);
  const fadeOutFrames = frameAt(toUs(clip.fadeOut ?? 0), rate);
  if (fadeInFrames + fadeOutFrames > frames)
    throw timelineError(
      path,
      `fadeIn and fadeOut together are longer than the clip, which lasts ${secondsText((frames * rate.den * 1e6) / rate.num)} seconds`,
    );
  return { fadeInFrames, fadeOutFrames };
}

/** Edges of a clip on the frame grid. */
export function clipFrames(placed: PlacedClip, rate: Rate, path: string) {
  const startFrame = frameAt(placed.startUs, rate);
  const frames = frameAt(placed.endUs, rate) - startFrame;
  if (frames < 1)
    throw timelineError(
      path,
      `lasts ${secondsText(placed.endUs - placed.startUs)} seconds, which is less than a frame`,
    );
  return { startFrame, frames };
}

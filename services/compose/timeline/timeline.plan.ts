import { planAudio } from "./audio.plan.ts";
import { TimelineLimits } from "./config.ts";
import { fillMain } from "./fill.plan.ts";
import { placeMain } from "./main-track.plan.ts";
import { placeOverlays } from "./overlay-track.plan.ts";
import type { Facts, RenderPlan } from "./plan.types.ts";
import { placeSounds, type SoundTrack } from "./sound-track.plan.ts";
import { planTexts, textsEndUs } from "./text.plan.ts";
import { frameAt, parseRate, type Rate, sampleAt } from "./time.plan.ts";
import type { Cue, Output, Timeline } from "./timeline.schema.ts";
import { timelineError } from "./timeline-error.ts";

/** Cues by index of their subtitle track, read from `cues`, `srt` or `src`. */
export type TrackCues = ReadonlyMap<number, readonly Cue[]>;

/** Where each part of the timeline ends, in frames. */
interface Ends {
  pictures: number;
  sounds: number;
  texts: number;
}

function totalFrames(output: Output, ends: Ends): number {
  const { pictures, sounds, texts } = ends;
  const rest = Math.max(pictures, sounds, texts);
  if (output.durationFrom === "longest") return rest;
  if (output.durationFrom === "audio") {
    if (sounds === 0)
      throw timelineError("output.durationFrom", 'is "audio", but no audio track has a clip');
    return sounds;
  }
  return pictures || rest;
}

function checkTotal(frames: number, rate: Rate) {
  if (frames < 1)
    throw timelineError("timeline", "is empty: give at least one clip that lasts a frame");
  const seconds = (frames * rate.den) / rate.num;
  if (seconds > TimelineLimits.durationS)
    throw timelineError(
      "timeline",
      `lasts ${Math.round(seconds)} seconds; at most ${TimelineLimits.durationS}`,
    );
}

/**
 * Resolves a timeline to whole frames, samples and pixels. Pure: the same timeline and facts give the
 * same plan. Times are rounded to the frame grid once, at clip edges; ranges exclude their end.
 * @throws AppError TIMELINE_INVALID naming the clip by path, and what would be right.
 */
export function planTimeline(
  timeline: Timeline,
  output: Output,
  facts: Facts,
  cues: TrackCues,
): RenderPlan {
  const rate = parseRate(output.fps);
  const canvas = { width: output.width, height: output.height };
  const notes: string[] = [];
  const main = placeMain(timeline, facts, rate, canvas, notes);
  const overlays = placeOverlays(timeline, facts, rate, canvas, notes);
  const sounds: SoundTrack[] = placeSounds(timeline, facts);
  const ends: Ends = {
    pictures: Math.max(main.frames, ...overlays.map((o) => o.startFrame + o.piece.frames)),
    sounds: frameAt(Math.max(0, ...sounds.map((track) => track.endUs)), rate),
    texts: frameAt(textsEndUs(timeline, cues), rate),
  };
  const frames = totalFrames(output, ends);
  checkTotal(frames, rate);
  const filled = fillMain(main, frames, output.fill, rate, notes);
  const samples = sampleAt(frames, rate, TimelineLimits.sampleRate);
  return {
    ...canvas,
    rate,
    frames,
    samples,
    sampleRate: TimelineLimits.sampleRate,
    background: output.background,
    format: output.format,
    quality: output.quality,
    main: filled.pieces,
    overlays: overlays.filter((overlay) => overlay.startFrame < frames),
    texts: planTexts(timeline, cues, { ...canvas, rate, frames }),
    audio: planAudio({
      timeline,
      facts,
      sounds,
      clipSounds: [...filled.sounds, ...overlays.flatMap((overlay) => overlay.sound ?? [])],
      rate,
      samples,
    }),
    notes,
  };
}

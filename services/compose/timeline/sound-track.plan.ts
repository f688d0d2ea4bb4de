import { factsOf, usedRange } from "./clip.plan.ts";
import { TimelineLimits } from "./config.ts";
import type { Facts, SoundPiece } from "./plan.types.ts";
import { toUs, type Us } from "./time.plan.ts";
import type { Timeline } from "./timeline.schema.ts";
import { timelineError } from "./timeline-error.ts";

export interface SoundTrack {
  role: "voice" | "effects";
  pieces: SoundPiece[];
  endUs: Us;
}

const sampleOf = (us: Us) => Math.round((us * TimelineLimits.sampleRate) / 1e6);

/** Clips of the audio tracks on the sample grid; those without a start follow one another. */
export function placeSounds(timeline: Timeline, facts: Facts): SoundTrack[] {
  return timeline.tracks.flatMap((track, at): SoundTrack[] => {
    if (track.type !== "audio") return [];
    let cursorUs = 0;
    let endUs = 0;
    const pieces = track.clips.map((clip, index): SoundPiece => {
      const path = `tracks[${at}].clips[${index}]`;
      const { audio } = factsOf(facts, clip.src, path);
      if (!audio) throw timelineError(path, "its source has no sound");
      const used = usedRange(clip.trim, audio.durationMs * 1000, path);
      const hasUs = Math.round(used.lengthUs / clip.speed);
      const lengthUs = Math.min(hasUs, clip.duration === undefined ? hasUs : toUs(clip.duration));
      const startUs = clip.start === undefined ? cursorUs : toUs(clip.start);
      cursorUs = startUs + (clip.duration === undefined ? hasUs : toUs(clip.duration));
      endUs = Math.max(endUs, startUs + lengthUs);
      const startSample = sampleOf(startUs);
      const samples = sampleOf(startUs + lengthUs) - startSample;
      if (samples < 1) throw timelineError(path, "has no sound in the part that is used");
      const fadeInSamples = sampleOf(toUs(clip.fadeIn ?? 0));
      const fadeOutSamples = sampleOf(toUs(clip.fadeOut ?? 0));
      if (fadeInSamples + fadeOutSamples > samples)
        throw timelineError(path, "fadeIn and fadeOut together are longer than the clip");
      return {
        path,
        src: clip.src,
        mono: audio.channels === 1,
        fromUs: used.fromUs,
        speed: clip.speed,
        volume: clip.volume * track.volume,
        startSample,
        samples,
        fadeInSamples,
        fadeOutSamples,
      };
    });
    return [{ role: track.role, pieces, endUs }];
  });
}

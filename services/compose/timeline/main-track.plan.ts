import { clipFrames, factsOf, fadesOf, type PlacedClip, placeClip, takesOf } from "./clip.plan.ts";
import { TimelineLimits } from "./config.ts";
import { fitPicture, storedSize } from "./geometry.plan.ts";
import type { Facts, MainPiece, PicturePiece, SoundPiece } from "./plan.types.ts";
import { frameAt, type Rate, sampleAt, secondsText, toUs, type Us } from "./time.plan.ts";
import type { Timeline, VideoClip } from "./timeline.schema.ts";
import { timelineError } from "./timeline-error.ts";

/** The main track on the frame grid: pieces without gaps, and the sounds of its clips. */
export interface MainTrack {
  pieces: MainPiece[];
  frames: number;
  sounds: SoundPiece[];
}

interface Canvas {
  width: number;
  height: number;
}

/** Where a clip begins: after the one before it, earlier by the transition between them. */
function startOf(
  clip: VideoClip,
  previous: { clip: VideoClip; placed: PlacedClip } | undefined,
  path: string,
  rate: Rate,
): Us {
  const endUs = previous?.placed.endUs ?? 0;
  const overlapUs = toUs(previous?.clip.transition?.duration ?? 0);
  const nextUs = endUs - overlapUs;
  if (clip.start === undefined) return nextUs;
  const startUs = toUs(clip.start);
  if (frameAt(startUs, rate) === frameAt(nextUs, rate)) return nextUs;
  if (overlapUs > 0)
    throw timelineError(
      `${path}.start`,
      `must be ${secondsText(nextUs)} because of the transition of the clip before it; leave it out`,
    );
  if (startUs < endUs)
    throw timelineError(
      `${path}.start`,
      `${secondsText(startUs)} is before the end of the clip before it (${secondsText(endUs)}); give that one a transition, or put this one into a track of type overlay`,
    );
  return startUs;
}

/** Frames in which a clip is mixed with its neighbours may not meet. */
function checkTransitions(pieces: readonly MainPiece[]) {
  for (const [index, { piece, transition }] of pieces.entries()) {
    const before = pieces[index - 1]?.transition?.frames ?? 0;
    const after = transition?.frames ?? 0;
    if (piece.type === "picture" && before + after > piece.frames)
      throw timelineError(
        `${piece.path}${after ? ".transition" : ""}`,
        `the clip has ${piece.frames} frames, but its transitions need ${before + after}; make them shorter`,
      );
  }
}

function pictureOf(
  clip: VideoClip,
  placed: PlacedClip,
  frames: number,
  context: { rate: Rate; canvas: Canvas; path: string; notes: string[] },
): PicturePiece {
  const { rate, canvas, path, notes } = context;
  const takes = takesOf(clip, placed, frames, rate, path);
  const has = takes.reduce((sum, take) => sum + take.frames, 0);
  if (has < frames) notes.push(`${path}: its last frame is held for ${frames - has} frames`);
  return {
    type: "picture",
    path,
    still: placed.still,
    takes,
    frames,
    ...fitPicture(clip.fit, storedSize(placed.facts), canvas),
    alpha: placed.facts.hasAlpha,
    zoom: clip.zoom && { ...clip.zoom, frames },
    ...fadesOf(clip, frames, rate, path),
  };
}

/** The sound of a clip lies under its picture; over a transition it is faded. */
export function clipSounds(
  clip: Pick<VideoClip, "volume" | "speed">,
  piece: PicturePiece,
  context: {
    placed: PlacedClip;
    startFrame: number;
    rate: Rate;
    trackVolume: number;
    /** Frames shared with the clip before and after. */
    before: number;
    after: number;
  },
): SoundPiece[] {
  const { placed, startFrame, rate, before, after } = context;
  const volume = clip.volume * context.trackVolume;
  if (!placed.facts.hasAudio || placed.still || volume === 0) return [];
  const sample = (frame: number) => sampleAt(frame, rate, TimelineLimits.sampleRate);
  let frame = startFrame;
  return piece.takes.map((take, index): SoundPiece => {
    const from = sample(frame);
    frame += take.frames;
    const first = index === 0 ? Math.max(before, piece.fadeInFrames) : 0;
    const last = index === piece.takes.length - 1 ? Math.max(after, piece.fadeOutFrames) : 0;
    return {
      path: piece.path,
      src: take.src,
      mono: placed.facts.audio?.channels === 1,
      fromUs: take.fromUs,
      speed: take.speed,
      volume,
      startSample: from,
      samples: sample(frame) - from,
      fadeInSamples: sample(Math.min(first, take.frames)),
      fadeOutSamples: sample(Math.min(last, take.frames)),
    };
  });
}

/** Puts the clips of the main track one after another; gaps become the background colour. */
export function placeMain(
  timeline: Timeline,
  facts: Facts,
  rate: Rate,
  canvas: Canvas,
  notes: string[],
): MainTrack {
  const at = timeline.tracks.findIndex((track) => track.type === "video");
  const track = timeline.tracks[at];
  if (track?.type !== "video") return { pieces: [], frames: 0, sounds: [] };
  const pieces: MainPiece[] = [];
  const sounds: SoundPiece[] = [];
  let previous: { clip: VideoClip; placed: PlacedClip } | undefined;
  let end = 0;
  for (const [index, clip] of track.clips.entries()) {
    const path = `tracks[${at}].clips[${index}]`;
    const startUs = startOf(clip, previous, path, rate);
    const placed = placeClip(clip, factsOf(facts, clip.src, path), startUs, path);
    const { startFrame, frames } = clipFrames(placed, rate, path);
    if (startFrame > end)
      pieces.push({ piece: { type: "colour", frames: startFrame - end }, startFrame: end });
    const before = pieces.at(-1)?.transition?.frames ?? 0;
    end = startFrame + frames;
    const overlapUs = toUs(clip.transition?.duration ?? 0);
    const after =
      index < track.clips.length - 1 && clip.transition
        ? end - frameAt(placed.endUs - overlapUs, rate)
        : 0;
    const piece = pictureOf(clip, placed, frames, { rate, canvas, path, notes });
    pieces.push({
      piece,
      startFrame,
      transition:
        after > 0 && clip.transition ? { kind: clip.transition.kind, frames: after } : undefined,
    });
    sounds.push(
      ...clipSounds(clip, piece, {
        placed,
        startFrame,
        rate,
        trackVolume: track.volume,
        before,
        after,
      }),
    );
    previous = { clip, placed };
  }
  checkTransitions(pieces);
  return { pieces, frames: end, sounds };
}

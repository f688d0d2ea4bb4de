import { TimelineLimits } from "./config.ts";
import type { MainTrack } from "./main-track.plan.ts";
import type { MainPiece, SoundPiece } from "./plan.types.ts";
import { type Rate, sampleAt } from "./time.plan.ts";
import type { Output } from "./timeline.schema.ts";
import { timelineError } from "./timeline-error.ts";

type Filled = Pick<MainTrack, "pieces" | "sounds">;

const colour = (startFrame: number, frames: number): MainPiece => ({
  piece: { type: "colour", frames },
  startFrame,
});

function repeat(main: MainTrack, frames: number, rate: Rate): Filled {
  const pieces: MainPiece[] = [];
  const sounds: SoundPiece[] = [];
  for (let offset = 0; offset < frames; offset += main.frames) {
    if (pieces.length + main.pieces.length > TimelineLimits.pieces)
      throw timelineError(
        "output.fill",
        `"loop" would need more than ${TimelineLimits.pieces} pieces; use "freeze"`,
      );
    const offsetSamples = sampleAt(offset, rate, TimelineLimits.sampleRate);
    pieces.push(...main.pieces.map((p) => ({ ...p, startFrame: p.startFrame + offset })));
    sounds.push(...main.sounds.map((s) => ({ ...s, startSample: s.startSample + offsetSamples })));
  }
  return { pieces, sounds };
}

/** The last frame of the last piece is held; its fade out, if any, stays where it was. */
function hold(main: MainTrack, missing: number): Filled {
  const last = main.pieces.at(-1) as MainPiece;
  const piece = { ...last.piece, frames: last.piece.frames + missing };
  return { pieces: [...main.pieces.slice(0, -1), { ...last, piece }], sounds: main.sounds };
}

/** Makes the main track as long as the video: fills what is missing, drops what lies beyond its end. */
export function fillMain(
  main: MainTrack,
  frames: number,
  fill: Output["fill"],
  rate: Rate,
  notes: string[],
): Filled {
  if (main.frames === 0) return { pieces: [colour(0, frames)], sounds: [] };
  const missing = frames - main.frames;
  if (missing > 0)
    notes.push(`the main picture is ${missing} frames shorter than the video; filled by ${fill}`);
  const filled =
    missing <= 0
      ? main
      : fill === "loop"
        ? repeat(main, frames, rate)
        : fill === "freeze"
          ? hold(main, missing)
          : { pieces: [...main.pieces, colour(main.frames, missing)], sounds: main.sounds };
  const kept = filled.pieces.filter((piece) => piece.startFrame < frames);
  const last = kept.at(-1) as MainPiece;
  const whole: MainPiece[] = [...kept.slice(0, -1), { ...last, transition: undefined }];
  return { pieces: whole, sounds: filled.sounds };
}

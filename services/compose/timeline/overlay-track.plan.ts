import { clipFrames, factsOf, fadesOf, placeClip, takesOf } from "./clip.plan.ts";
import { placeOverlay, storedSize } from "./geometry.plan.ts";
import { clipSounds } from "./main-track.plan.ts";
import type { Facts, OverlayPiece, PicturePiece, SoundPiece } from "./plan.types.ts";
import { type Rate, toUs } from "./time.plan.ts";
import type { Timeline } from "./timeline.schema.ts";

/** Clips of the overlay tracks, lowest first, with their sounds. */
export function placeOverlays(
  timeline: Timeline,
  facts: Facts,
  rate: Rate,
  canvas: { width: number; height: number },
  notes: string[],
): (OverlayPiece & { sound?: SoundPiece[] })[] {
  return timeline.tracks.flatMap((track, at) => {
    if (track.type !== "overlay") return [];
    let cursorUs = 0;
    return track.clips.map((clip, index) => {
      const path = `tracks[${at}].clips[${index}]`;
      const startUs = clip.start === undefined ? cursorUs : toUs(clip.start);
      const placed = placeClip(clip, factsOf(facts, clip.src, path), startUs, path);
      cursorUs = placed.endUs;
      const { startFrame, frames } = clipFrames(placed, rate, path);
      const { placement, x, y } = placeOverlay(
        storedSize(placed.facts),
        canvas,
        clip.scale,
        clip.position,
      );
      const takes = takesOf(clip, placed, frames, rate, path);
      const has = takes.reduce((sum, take) => sum + take.frames, 0);
      if (has < frames) notes.push(`${path}: its last frame is held for ${frames - has} frames`);
      const piece: PicturePiece = {
        type: "picture",
        path,
        still: placed.still,
        takes,
        frames,
        placement,
        alpha: placed.facts.hasAlpha,
        ...fadesOf(clip, frames, rate, path),
      };
      const context = { placed, startFrame, rate, trackVolume: track.volume, before: 0, after: 0 };
      const sound = clipSounds(clip, piece, context);
      return { piece, startFrame, x, y, opacity: clip.opacity, sound };
    });
  });
}

import type { MediaFacts } from "../media/probe-facts.policy.ts";
import { placeMain } from "./main-track.plan.ts";
import { placeOverlays } from "./overlay-track.plan.ts";
import { parseRate } from "./time.plan.ts";
import type { OverlayClip, Timeline, TimelineRequest, VideoClip } from "./timeline.schema.ts";

/** A still stands in for every source: its length is what the clip says, and nothing else of it is asked. */
const standIn: MediaFacts = {
  kind: "image",
  format: "",
  demuxer: "",
  durationMs: 0,
  width: 16,
  height: 16,
  pixelAspect: { num: 1, den: 1 },
  rotation: 0,
  uprightFilters: "",
  vfr: false,
  hasVideo: true,
  hasAudio: false,
  codec: "",
  hasAlpha: false,
};

/** The clips from the first one on whose lengths do not depend on their media. */
function knownClips<Clip extends VideoClip | OverlayClip>(clips: readonly Clip[]): Clip[] {
  const end = clips.findIndex((clip) => clip.duration === undefined && clip.kind !== "image");
  const known = end < 0 ? clips : clips.slice(0, end);
  return known.map((clip) => ({ ...clip, kind: undefined }));
}

/**
 * Looks for contradictions between times that the request itself gives: clips that overlap, transitions and
 * fades longer than their clip, clips shorter than a frame. A later look at the media can find more, never less.
 * @throws AppError TIMELINE_INVALID naming the clip by path.
 */
export function checkKnownPictures({ timeline, output }: TimelineRequest): void {
  // Tracks keep their places, so that the paths in errors are those of the request.
  const tracks = timeline.tracks.map((track): Timeline["tracks"][number] => {
    if (track.type === "video") return { ...track, clips: knownClips(track.clips) };
    if (track.type === "overlay") return { ...track, clips: knownClips(track.clips) };
    return track;
  });
  const facts = new Map<string, MediaFacts>();
  for (const track of tracks)
    if (track.type === "video" || track.type === "overlay")
      for (const { src } of track.clips) facts.set(src, standIn);
  const canvas = { width: output.width, height: output.height };
  const rate = parseRate(output.fps);
  placeMain({ tracks }, facts, rate, canvas, []);
  placeOverlays({ tracks }, facts, rate, canvas, []);
}

import type { Timeline } from "./timeline.schema.ts";

/** A source as the timeline names it first. */
export interface TimelineSource {
  src: string;
  /** Path of the clip: `tracks[0].clips[2]`. */
  clip: string;
  expected?: "video" | "image" | "audio" | "picture";
}

export interface TimelineSources {
  /** Pictures and sounds, each source once. */
  media: TimelineSource[];
  /** SRT files, with the track that wants them. */
  subtitles: (TimelineSource & { track: number })[];
}

/** Every source that a timeline needs. */
export function timelineSources({ tracks, music }: Timeline): TimelineSources {
  const media = new Map<string, TimelineSource>();
  const subtitles: TimelineSources["subtitles"] = [];
  const add = (src: string, clip: string, expected: TimelineSource["expected"]) => {
    if (!media.has(src)) media.set(src, { src, clip, expected });
  };
  for (const [at, track] of tracks.entries()) {
    const path = `tracks[${at}]`;
    if (track.type === "video" || track.type === "overlay")
      for (const [index, clip] of track.clips.entries())
        add(clip.src, `${path}.clips[${index}]`, clip.kind ?? "picture");
    if (track.type === "audio")
      for (const [index, clip] of track.clips.entries())
        add(clip.src, `${path}.clips[${index}]`, "audio");
    if (track.type === "subtitle" && track.src)
      subtitles.push({ src: track.src, clip: path, track: at });
  }
  if (music) add(music.src, "music", "audio");
  return { media: [...media.values()], subtitles };
}

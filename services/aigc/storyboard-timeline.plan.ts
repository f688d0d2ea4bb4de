import type { TimelineRequestInput } from "../compose/timeline/timeline.schema.ts";

/** A scene with everything that its part of the video needs. */
export interface TimedScene {
  text: string;
  durationMs: number;
  /** Pictures or videos that share the scene's time; none: its words fill the picture. */
  materials: readonly string[];
  /** Voice of the scene. */
  audio?: string;
}

export interface Frame {
  width: number;
  height: number;
  fps: number;
  quality: "draft" | "standard" | "high";
}

type Track = TimelineRequestInput["timeline"]["tracks"][number];

const transitionMs = 400;
/** A piece that is seen shorter than this is a flicker. */
const pieceMsMin = 1_000;
/** Quiet, dark colours on which white letters can be read. */
const backgrounds = ["#14213D", "#1B3A2F", "#3A1C2B", "#2B2D42", "#402A1E", "#1F2A44"] as const;

const seconds = (ms: number) => Math.round(ms) / 1000;
const isStill = (src: string) => /\.(?:jpe?g|png|webp|bmp|avif|heic)(?:[?#]|$)/i.test(src);

/** The same words get the same colour, so that a second render looks like the first. */
export const backgroundFor = (title: string): string => {
  let sum = 0;
  for (const letter of title) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 1_000_003;
  return backgrounds[sum % backgrounds.length]!;
};

/** Materials in their order over the scenes: shared out where there are more of them, repeated where there are fewer. */
export function assignMaterials(scenes: number, materials: readonly string[]): string[][] {
  return Array.from({ length: scenes }, (_, index) => {
    if (materials.length === 0) return [];
    if (materials.length <= scenes) return [materials[index % materials.length]!];
    const from = Math.floor((index * materials.length) / scenes);
    const to = Math.floor(((index + 1) * materials.length) / scenes);
    return materials.slice(from, to);
  });
}

/** The main picture. Clips overlap while one goes over into the next, so that each but the last is longer by that. */
function pictureTrack(scenes: readonly TimedScene[]): Track {
  const pieces = scenes.flatMap(({ durationMs, materials }) => {
    const shown = materials.slice(0, Math.max(1, Math.floor(durationMs / pieceMsMin)));
    return shown.map((src) => ({ src, ms: durationMs / shown.length }));
  });
  return {
    type: "video",
    clips: pieces.map(({ src, ms }, index) => {
      const last = index === pieces.length - 1;
      return {
        src,
        duration: seconds(ms + (last ? 0 : transitionMs)),
        volume: 0,
        ...(isStill(src)
          ? { zoom: index % 2 === 0 ? {} : { from: { scale: 1.12 }, to: { scale: 1 } } }
          : { fill: "loop" as const }),
        ...(last ? {} : { transition: { kind: "fade" as const, duration: seconds(transitionMs) } }),
      };
    }),
  };
}

/** A request for `compose_timeline_ffmpeg` that can be rendered as it is. */
export function timelineOf(
  scenes: readonly TimedScene[],
  { title, frame, music }: { title: string; frame: Frame; music?: string },
): TimelineRequestInput {
  const starts = scenes.map((_, index) =>
    scenes.slice(0, index).reduce((sum, { durationMs }) => sum + durationMs, 0),
  );
  const pictured = scenes.every(({ materials }) => materials.length > 0);
  const at = (index: number) => seconds(starts[index]!);
  const voiced = scenes.flatMap(({ audio }, index) =>
    audio === undefined ? [] : [{ src: audio, start: at(index) }],
  );
  const tracks: Track[] = [];
  if (pictured) {
    tracks.push(pictureTrack(scenes));
    tracks.push({
      type: "subtitle",
      cues: scenes.map(({ text, durationMs }, index) => ({
        start: at(index),
        end: seconds(starts[index]! + durationMs - 50),
        text,
      })),
    });
  } else {
    tracks.push({
      type: "text",
      style: { size: 0.085, maxWidth: 0.8 },
      clips: scenes.map(({ text, durationMs }, index) => ({
        text,
        start: at(index),
        duration: seconds(durationMs),
        animation: "rise" as const,
      })),
    });
  }
  if (voiced.length > 0) tracks.push({ type: "audio", role: "voice", clips: voiced });
  return {
    timeline: { tracks, ...(music === undefined ? {} : { music: { src: music, fadeOut: 1 } }) },
    output: { ...frame, background: backgroundFor(title) },
  };
}

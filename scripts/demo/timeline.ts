import { basename, extname } from "node:path";

const kinds = {
  image: [".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"],
  video: [".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mpg", ".ts"],
  audio: [".wav", ".mp3", ".m4a", ".aac", ".flac", ".ogg", ".opus"],
};
export type MediaKind = keyof typeof kinds;

/** What a file is, by the ending of its name; the product looks inside. */
export function mediaKind(file: string): MediaKind | undefined {
  const ending = extname(file).toLowerCase();
  return (Object.keys(kinds) as MediaKind[]).find((kind) => kinds[kind].includes(ending));
}

export interface Uploaded {
  file: string;
  kind: MediaKind;
  /** Storage address. */
  src: string;
}

export const output = { width: 720, height: 1280, fps: 25 };
const CROSSFADE = { kind: "fade", duration: 0.6 };
const title = { size: 0.13, bold: true, outline: 0, shadow: 0.05, position: "top", margin: 0.14 };

/** Frames of the sample video: 3.6 + 3.4 + 4.2 s less two cross-fades of 0.6 s. */
export const sampleFrames = 10 * output.fps;

/** Two stills with slow zoom, a clip, cross-fades, a voice over ducked music, two subtitle tracks and a title. */
export function sampleTimeline(src: Record<"sea" | "coffee" | "pool" | "voice" | "music", string>) {
  return {
    tracks: [
      {
        type: "video",
        clips: [
          { src: src.sea, duration: 3.6, transition: CROSSFADE },
          {
            src: src.coffee,
            duration: 3.4,
            zoom: { from: { scale: 1 }, to: { scale: 1.16, x: 0.52, y: 0.58 } },
            transition: CROSSFADE,
          },
          {
            src: src.pool,
            duration: 4.2,
            zoom: { from: { scale: 1.18, y: 0.6 }, to: { scale: 1 } },
          },
        ],
      },
      { type: "audio", clips: [{ src: src.voice, start: 1 }] },
      { type: "text", clips: [{ text: "海边的早晨", start: 0.3, duration: 3, style: title }] },
      {
        type: "subtitle",
        style: { size: 0.072 },
        cues: [
          { start: 1.2, end: 2.9, text: "早安，来自大海" },
          { start: 3.2, end: 4.3, text: "先来一杯咖啡" },
          { start: 4.5, end: 5.7, text: "再去泳池边" },
          { start: 5.9, end: 9.2, text: "多住一天，让阳光找到你" },
        ],
      },
      {
        type: "subtitle",
        style: { size: 0.046, bold: false },
        srt: [
          "1\n00:00:01,200 --> 00:00:02,900\nGood morning from the sea.",
          "2\n00:00:03,200 --> 00:00:04,300\nCoffee first.",
          "3\n00:00:04,500 --> 00:00:05,700\nThen the pool.",
          "4\n00:00:05,900 --> 00:00:09,200\nStay one more day, and let the sun find you.",
        ].join("\n\n"),
      },
    ],
    music: { src: src.music, volume: 0.5, loop: true, duck: true, fadeOut: 1 },
  };
}

/** The user's own files in the order given: pictures and clips, the first sound as voice, the second as music. */
export function ownTimeline(files: readonly Uploaded[], fallbackMusic: string) {
  const visual = files.filter(({ kind }) => kind !== "audio");
  const [voice, music] = files.filter(({ kind }) => kind === "audio");
  return {
    tracks: [
      {
        type: "video",
        clips: visual.map(({ kind, src }, index) => ({
          src,
          ...(kind === "image"
            ? { duration: 3.5, zoom: { from: { scale: 1 }, to: { scale: 1.12 } } }
            : {}),
          fit: "blur",
          ...(index < visual.length - 1 ? { transition: CROSSFADE } : {}),
        })),
      },
      ...(voice ? [{ type: "audio", clips: [{ src: voice.src }] }] : []),
    ],
    music: { src: music?.src ?? fallbackMusic, volume: 0.5, loop: true, duck: true, fadeOut: 1 },
  };
}

export const uploadKey = (file: string, at: number) =>
  `uploads/demo/${at}-${basename(file).replace(/[^\w.-]+/g, "_")}`;

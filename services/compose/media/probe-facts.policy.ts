import type { MediaSignature } from "./media-signature.policy.ts";

/** What is known of a source file; all that a plan needs to use it. */
export interface MediaFacts {
  kind: "video" | "image" | "audio";
  /** Format for people. */
  format: string;
  /** The one demuxer that may open it: `-f` before `-i`. */
  demuxer: string;
  /** 0 for a still image. */
  durationMs: number;
  /** Width and height as shown, that is after `uprightFilters`. 0 for audio. */
  width: number;
  height: number;
  /** Shape of a stored pixel, before turning; 1:1 almost always. `scale` with `setsar=1` must allow for it. */
  pixelAspect: { num: number; den: number };
  /** Degrees clockwise that the stored picture must be turned: 0, 90, 180, 270. */
  rotation: 0 | 90 | 180 | 270;
  /**
   * Filters that set the stored picture upright, "" for none. Inputs are opened with `-noautorotate`
   * (see `inputArgs`), because releases of FFmpeg differ in what they turn by themselves.
   */
  uprightFilters: string;
  /** Frames a second as a fraction, average for variable rates; absent for images and audio. */
  fps?: { num: number; den: number };
  /** The gaps between its frames differ. */
  vfr: boolean;
  /** Frames as the container counts them; absent where it does not say. */
  frames?: number;
  hasVideo: boolean;
  hasAudio: boolean;
  audio?: { rate: number; channels: number; codec: string; durationMs: number };
  codec: string;
  pixelFormat?: string;
  hasAlpha: boolean;
}

interface ProbedStream {
  index: number;
  codec_type?: string;
  codec_name?: string;
  width?: number;
  height?: number;
  pix_fmt?: string;
  r_frame_rate?: string;
  avg_frame_rate?: string;
  nb_frames?: string;
  duration?: string;
  sample_rate?: string;
  channels?: number;
  sample_aspect_ratio?: string;
  tags?: { rotate?: string; DURATION?: string };
  disposition?: { attached_pic?: number };
  side_data_list?: { rotation?: number; displaymatrix?: string }[];
}
export interface ProbedFile {
  streams?: ProbedStream[];
  format?: { duration?: string };
}

const fraction = (text: string | undefined): { num: number; den: number } | undefined => {
  const [num = 0, den = 1] = (text ?? "").split("/").map(Number);
  return num > 0 && den > 0 ? { num, den } : undefined;
};
const milliseconds = (text: string | undefined): number => {
  const seconds = Number(text);
  return Number.isFinite(seconds) && seconds > 0 ? Math.round(seconds * 1000) : 0;
};
/** Matroska gives the duration of a stream as a tag, 00:00:02.040000000. */
const taggedMs = (text: string | undefined): number => {
  const parts = /^(\d+):(\d\d):(\d\d(?:\.\d+)?)$/.exec(text ?? "");
  return parts
    ? Math.round((Number(parts[1]) * 3600 + Number(parts[2]) * 60 + Number(parts[3])) * 1000)
    : 0;
};

/**
 * After the picture was set upright nobody may hear that it should be turned: FFmpeg 9 hands a source's turn on through
 * any graph to the result, where players would turn it again.
 */
const forgetTurn = "sidedata=mode=delete:type=DISPLAYMATRIX";

const turns = {
  0: "",
  90: "transpose=clock",
  180: "hflip,vflip",
  270: "transpose=cclock",
} as const;

/** FFmpeg tells how far the picture is turned counter-clockwise; showing it upright turns by as much clockwise the other way. */
function rotationOf(stream: ProbedStream): 0 | 90 | 180 | 270 {
  const told = stream.side_data_list?.find((data) => data.rotation !== undefined)?.rotation;
  const clockwise = told !== undefined ? -told : Number(stream.tags?.rotate ?? 0);
  const quarter = ((Math.round(clockwise / 90) % 4) + 4) % 4;
  return ([0, 90, 180, 270] as const)[quarter] ?? 0;
}

const alphaFormats = /^(rgba|bgra|argb|abgr|ya8|ya16|yuva|gbrap|rgba64|bgra64|pal8)/;

/**
 * Reads what ffprobe printed of a file.
 * @param orientation filters from the Exif data of a JPEG.
 * @returns facts, or why the file is of no use.
 */
export function readFacts(
  probed: ProbedFile,
  signature: MediaSignature,
  orientation: string,
): MediaFacts | { reason: string } {
  const streams = probed.streams ?? [];
  // Cover art of a song is no picture to show.
  const video = streams.find((s) => s.codec_type === "video" && s.disposition?.attached_pic !== 1);
  const sound = streams.find((s) => s.codec_type === "audio" && Number(s.sample_rate) > 0);
  if (!video && !sound) return { reason: "it has neither picture nor sound" };
  if (video && !(Number(video.width) > 0 && Number(video.height) > 0))
    // FFmpeg gives no size for pictures beyond what it opens at all, about 268 megapixels.
    return { reason: "the size of its picture cannot be read: it is damaged or far too large" };
  const wholeMs = milliseconds(probed.format?.duration);
  const ownMs = (stream: ProbedStream | undefined) =>
    milliseconds(stream?.duration) || taggedMs(stream?.tags?.DURATION) || wholeMs;
  const image = signature.kind === "image";
  const rotation = image || !video ? 0 : rotationOf(video);
  const upright = image ? orientation : turns[rotation];
  const swapped = upright.startsWith("transpose");
  const [aspectNum = 1, aspectDen = 1] = (video?.sample_aspect_ratio ?? "1:1")
    .split(":")
    .map(Number);
  const average = fraction(video?.avg_frame_rate);
  const base = fraction(video?.r_frame_rate);
  const fps = average ?? base;
  return {
    kind: image ? "image" : video ? "video" : "audio",
    format: signature.name,
    demuxer: signature.demuxer,
    durationMs: image ? 0 : ownMs(video ?? sound),
    width: (swapped ? video?.height : video?.width) ?? 0,
    height: (swapped ? video?.width : video?.height) ?? 0,
    pixelAspect:
      aspectNum > 0 && aspectDen > 0 ? { num: aspectNum, den: aspectDen } : { num: 1, den: 1 },
    rotation: image
      ? (({ "transpose=clock": 90, "hflip,vflip": 180, "transpose=cclock": 270 } as const)[
          orientation
        ] ?? 0)
      : rotation,
    uprightFilters: upright && `${upright},${forgetTurn}`,
    fps: image || !video ? undefined : fps,
    vfr:
      !image &&
      !!average &&
      !!base &&
      Math.abs(average.num / average.den / (base.num / base.den) - 1) > 0.005,
    frames: image ? 1 : Number(video?.nb_frames) || undefined,
    hasVideo: !!video,
    hasAudio: !!sound,
    audio: sound && {
      rate: Number(sound.sample_rate),
      channels: sound.channels ?? 1,
      codec: sound.codec_name ?? "unknown",
      durationMs: ownMs(sound),
    },
    codec: (video ?? sound)?.codec_name ?? "unknown",
    pixelFormat: video?.pix_fmt,
    hasAlpha: alphaFormats.test(video?.pix_fmt ?? ""),
  };
}

/**
 * Options before `-i` of a source: one demuxer, files only, no turning by FFmpeg itself. `loop` repeats a
 * still image for ever at `loop.fps` frames a second.
 */
export function inputArgs(
  facts: Pick<MediaFacts, "demuxer" | "kind" | "hasVideo">,
  loop?: { fps: string },
): string[] {
  return [
    "-protocol_whitelist",
    "file,pipe",
    "-f",
    facts.demuxer,
    ...(facts.hasVideo ? ["-noautorotate"] : []),
    ...(facts.demuxer === "image2" ? ["-pattern_type", "none"] : []),
    ...(facts.demuxer === "image2" && loop ? ["-loop", "1", "-framerate", loop.fps] : []),
  ];
}

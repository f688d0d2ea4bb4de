import type { ComposePayload } from "./compose.payload.ts";
import type { TimelineRequestInput } from "./timeline/timeline.schema.ts";

const transitionS = 0.5;
const titleS = 3;
const imageName = /\.(png|jpe?g|webp|bmp|tiff?)(\?.*)?$/i;

type Tracks = TimelineRequestInput["timeline"]["tracks"];

/** Half a second where the clip is known to be long enough for it, a third of the clip otherwise. */
const transitionOf = (task: ComposePayload, index: number) => {
  if (task.transition === "none" || index === task.media.length - 1) return undefined;
  const shortest = Math.min(
    task.media[index]?.duration ?? Infinity,
    task.media[index + 1]?.duration ?? Infinity,
  );
  const duration = Math.min(transitionS, shortest / 3);
  return duration < 0.04 ? undefined : { kind: task.transition, duration };
};

/** The timeline that a simple composition stands for. */
export function composeTimeline(task: ComposePayload): TimelineRequestInput {
  const tracks: Tracks = [
    {
      type: "video",
      clips: task.media.map(({ src, duration }, index) => ({
        src,
        duration,
        fit: task.fit,
        // A video moves by itself; the name is all that is known of the source here.
        zoom: task.zoom && imageName.test(src) ? {} : undefined,
        transition: transitionOf(task, index),
      })),
    },
  ];
  if (task.audio)
    tracks.push({ type: "audio", role: "voice", clips: [{ src: task.audio, start: 0 }] });
  if (task.title)
    tracks.push({ type: "text", clips: [{ text: task.title, start: 0, duration: titleS }] });
  if (task.subtitles)
    tracks.push({
      type: "subtitle",
      ...(typeof task.subtitles === "string" ? { srt: task.subtitles } : { cues: task.subtitles }),
      style: task.subtitleStyle,
    });
  const { width, height, fps, quality, options } = task;
  return {
    timeline: { tracks, music: task.music ? { src: task.music, fadeOut: 1.5 } : undefined },
    output: {
      width,
      height,
      fps,
      quality,
      durationFrom: task.audio ? "audio" : "video",
      fill: "loop",
    },
    options,
  };
}

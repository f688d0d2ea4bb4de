import { z } from "zod";
import { TimelineLimits as limits } from "./timeline/config.ts";
import {
  Cue,
  Output,
  renderImplementations,
  TextStyle,
  transitionKinds,
} from "./timeline/timeline.schema.ts";

const Source = z
  .string()
  .min(1)
  .max(limits.sourceLength)
  .describe("An http(s) URL, an object as oss://bucket/key, or the key of an object");
const Seconds = z.number().min(0.01).max(limits.durationS);

/**
 * What a job of kind "compose" is given: pictures one after another with a voice, music and subtitles.
 * The operations document (section 4) names the route and leaves the payload open; whoever needs more
 * sends a timeline.
 */
export const ComposePayload = z
  .strictObject({
    media: z
      .array(
        z.strictObject({
          src: Source,
          duration: Seconds.optional().describe(
            "Seconds; default: all of a video, 3 seconds of an image",
          ),
        }),
      )
      .min(1)
      .max(limits.clips)
      .describe("Videos and images in the order in which they are shown"),
    audio: Source.optional().describe("Voice; the video gets exactly as long as it"),
    music: Source.optional().describe(
      "Background music, repeated to the end; it goes down under the voice",
    ),
    subtitles: z
      .union([z.array(Cue).min(1).max(limits.cues), z.string().min(1).max(limits.srtLength)])
      .optional()
      .describe("Cues with start, end (seconds) and text, or the text of an SRT file"),
    subtitleStyle: TextStyle.optional(),
    title: z.string().min(1).max(200).optional().describe("Shown over the first three seconds"),
    transition: z
      .enum([...transitionKinds, "none"])
      .default("fade")
      .describe("Between the media; each takes half a second that both are seen"),
    zoom: z.boolean().default(true).describe("Slow zoom on images"),
    fit: z.enum(["cover", "contain", "blur"]).default("cover"),
    width: Output.shape.width,
    height: Output.shape.height,
    fps: Output.shape.fps,
    quality: Output.shape.quality,
    options: z
      .strictObject({ impl: z.enum(renderImplementations).default("ffmpeg-direct") })
      .prefault({}),
  })
  .describe("Shows media one after another, with voice, music and subtitles");
export type ComposePayload = z.output<typeof ComposePayload>;

import { z } from "zod";
import { TimelineLimits as limits } from "./config.ts";

const Seconds = z.number().min(0).max(limits.durationS);
const Length = z
  .number()
  .min(0.01, "must be at least 0.01 seconds")
  .max(limits.durationS, `must be at most ${limits.durationS} seconds`);
const Fraction = z.number().min(0).max(1);
const Volume = z.number().min(0).max(4);
const Colour = z
  .string()
  .regex(/^#[0-9a-fA-F]{6}([0-9a-fA-F]{2})?$/, "must be a colour as #RRGGBB or #RRGGBBAA");

const Source = z
  .string()
  .min(1)
  .max(limits.sourceLength)
  .describe(
    "Media file: an http(s) URL, an object as oss://bucket/key, or the key of an object in the default bucket",
  );

const Trim = z
  .strictObject({
    start: Seconds.default(0).describe("First second of the source that is used"),
    end: Length.optional().describe("Second of the source to stop before; default: its end"),
  })
  .refine((trim) => trim.end === undefined || trim.end > trim.start, {
    error: "end must be greater than start",
    path: ["end"],
  })
  .describe("Part of the source that is used, in seconds of the source");

/** Transitions that look well in short videos, by FFmpeg's names. */
export const transitionKinds = [
  "fade",
  "dissolve",
  "fadeblack",
  "fadewhite",
  "wipeleft",
  "wiperight",
  "wipeup",
  "wipedown",
  "slideleft",
  "slideright",
  "slideup",
  "slidedown",
  "smoothleft",
  "smoothright",
  "smoothup",
  "smoothdown",
  "circleopen",
  "circleclose",
  "radial",
  "pixelize",
] as const;

const Transition = z
  .strictObject({
    kind: z.enum(transitionKinds).default("fade"),
    duration: z
      .number()
      .min(0.04)
      .max(10)
      .default(0.5)
      .describe(
        "Seconds during which both clips are seen. They overlap: the video gets shorter by this much",
      ),
  })
  .describe("How this clip goes over into the next one of the track");

const View = z.strictObject({
  scale: z.number().min(1).max(4).default(1).describe("1 shows everything, 2 only half of it"),
  x: Fraction.default(0.5).describe("Centre of the view: 0 left, 1 right"),
  y: Fraction.default(0.5).describe("Centre of the view: 0 top, 1 bottom"),
});
const Zoom = z
  .strictObject({
    from: View.prefault({}),
    to: View.prefault({ scale: 1.12 }),
    ease: z.enum(["linear", "smooth"]).default("linear"),
  })
  .describe('Slow zoom and pan over the whole clip ("Ken Burns"). {} is a gentle zoom in');

const pictureFields = {
  src: Source,
  kind: z
    .enum(["video", "image"])
    .optional()
    .describe("Default: what the file is. A wrong one is an error"),
  start: Seconds.optional().describe(
    "Second of the timeline at which the clip begins; default: where the clip before it ends",
  ),
  duration: Length.optional().describe(
    "Seconds on the timeline. Default: the used part of a video at its speed; 3 for an image",
  ),
  trim: Trim.optional(),
  speed: z.number().min(0.25).max(4).default(1).describe("2 plays twice as fast"),
  fill: z
    .enum(["freeze", "loop"])
    .default("freeze")
    .describe("When the video is shorter than `duration`: hold its last frame, or start it again"),
  volume: Volume.default(1).describe("Of the clip's own sound; 0 is silent"),
  fadeIn: Length.optional().describe("Seconds to fade picture and sound in"),
  fadeOut: Length.optional().describe("Seconds to fade picture and sound out"),
};

export const VideoClip = z.strictObject({
  ...pictureFields,
  fit: z
    .enum(["cover", "contain", "blur"])
    .default("cover")
    .describe(
      "cover fills the picture and cuts off what does not fit; contain shows everything with bars in the background colour; blur shows everything in front of a blurred copy of itself",
    ),
  zoom: Zoom.optional(),
  transition: Transition.optional(),
});

/** Where something is anchored: that point of it lies at x, y of the picture. */
export const anchors = [
  "top-left",
  "top",
  "top-right",
  "left",
  "center",
  "right",
  "bottom-left",
  "bottom",
  "bottom-right",
] as const;
const Position = z
  .strictObject({
    anchor: z.enum(anchors).default("center").describe("The point of it that lies at x, y"),
    x: Fraction.optional().describe("0 left edge, 1 right edge; default: near the anchor's side"),
    y: Fraction.optional().describe("0 top edge, 1 bottom edge; default: near the anchor's side"),
  })
  .describe("Place in the picture, as fractions of its width and height");

export const OverlayClip = z.strictObject({
  ...pictureFields,
  position: Position.prefault({}),
  scale: z
    .number()
    .min(0.01)
    .max(2)
    .default(0.4)
    .describe("Width as a fraction of the picture's width; the height follows"),
  opacity: Fraction.default(1),
});

export const AudioClip = z.strictObject({
  src: Source,
  start: Seconds.optional().describe("Default: where the clip before it ends"),
  duration: Length.optional().describe("Default: the used part at its speed"),
  trim: Trim.optional(),
  speed: z.number().min(0.25).max(4).default(1).describe("The pitch stays"),
  volume: Volume.default(1),
  fadeIn: Length.optional(),
  fadeOut: Length.optional(),
});

const fontName = /^[\p{L}\p{N} ._-]{1,64}$/u;
export const TextStyle = z
  .strictObject({
    font: z
      .string()
      .regex(fontName, "must be the name of a font family")
      .optional()
      .describe("Font family; default Noto Sans SC, which has Chinese and Latin letters"),
    size: z
      .number()
      .min(0.01)
      .max(0.5)
      .optional()
      .describe(
        "Letter size as a fraction of the shorter side of the picture; default 0.056 for subtitles, 0.1 for titles",
      ),
    colour: Colour.optional().describe("Default #FFFFFF"),
    bold: z.boolean().optional().describe("Default true"),
    italic: z.boolean().optional(),
    outline: z
      .number()
      .min(0)
      .max(0.3)
      .optional()
      .describe("Width of the outline as a fraction of the letter size; default 0.07"),
    outlineColour: Colour.optional().describe("Default #000000"),
    shadow: z
      .number()
      .min(0)
      .max(0.3)
      .optional()
      .describe("Depth of the shadow as a fraction of the letter size; default 0.03"),
    shadowColour: Colour.optional().describe("Default #00000080"),
    box: Colour.optional().describe(
      "Colour of a box behind the text, e.g. #000000A0; then there is no outline",
    ),
    position: z
      .enum(anchors)
      .optional()
      .describe("Default bottom for subtitles, center for titles"),
    margin: z
      .number()
      .min(0)
      .max(0.5)
      .optional()
      .describe(
        "Distance from the top or bottom edge as a fraction of the height; default 0.18 in upright video (clear of the buttons of the apps), else 0.06",
      ),
    maxWidth: z
      .number()
      .min(0.1)
      .max(1)
      .optional()
      .describe("Widest line as a fraction of the picture's width; default 0.86"),
    spacing: z
      .number()
      .min(-0.2)
      .max(1)
      .optional()
      .describe("Extra space between letters as a fraction of the letter size"),
  })
  .describe("How text looks; every field has a sensible default");

const Words = z.string().min(1).max(limits.textLength);

export const TextClip = z.strictObject({
  text: Words.describe("Shown as it is; \\n begins a new line; long lines are broken to fit"),
  start: Seconds.default(0),
  duration: Length.optional().describe("Default: to the end of the video"),
  style: TextStyle.optional(),
  x: Fraction.optional().describe("Exact place of the anchor (style.position) instead of margins"),
  y: Fraction.optional(),
  animation: z.enum(["none", "fade", "rise"]).default("fade").describe("How it comes and goes"),
});

export const Cue = z
  .strictObject({ start: Seconds, end: Length, text: Words })
  .refine((cue) => cue.end > cue.start, {
    error: "end must be greater than start",
    path: ["end"],
  });

const Cues = z.array(Cue).min(1).max(limits.cues);

const VideoTrack = z
  .strictObject({
    type: z.literal("video"),
    clips: z.array(VideoClip).min(1).max(limits.clips),
    volume: Volume.default(1),
  })
  .describe(
    "The main picture: video and image clips one after another. A timeline has at most one such track; put pictures on top of it in a track of type overlay",
  );
const OverlayTrack = z
  .strictObject({
    type: z.literal("overlay"),
    clips: z.array(OverlayClip).min(1).max(limits.clips),
    volume: Volume.default(1),
  })
  .describe("Pictures, logos or videos on top of the main picture; later tracks lie above");
const AudioTrack = z
  .strictObject({
    type: z.literal("audio"),
    role: z
      .enum(["voice", "effects"])
      .default("voice")
      .describe("Background music goes down while a voice track sounds"),
    clips: z.array(AudioClip).min(1).max(limits.clips),
    volume: Volume.default(1),
  })
  .describe("Voice or sound effects; for background music use `music` of the timeline");
const TextTrack = z
  .strictObject({
    type: z.literal("text"),
    clips: z.array(TextClip).min(1).max(limits.clips),
    style: TextStyle.optional(),
  })
  .describe("Titles and captions that are placed by hand");
const SubtitleTrack = z
  .strictObject({
    type: z.literal("subtitle"),
    cues: Cues.optional().describe("The subtitles, with times in seconds of the timeline"),
    srt: z.string().max(limits.srtLength).optional().describe("Or the text of an SRT file"),
    src: Source.optional().describe("Or an SRT file"),
    offset: z
      .number()
      .min(-limits.durationS)
      .max(limits.durationS)
      .default(0)
      .describe("Seconds added to every time"),
    style: TextStyle.optional(),
  })
  .refine(
    (track) => [track.cues, track.srt, track.src].filter((x) => x !== undefined).length === 1,
    {
      error: "give exactly one of cues, srt and src",
    },
  )
  .describe(
    "Subtitles, burnt in. Several tracks at the same position are stacked, the first one on top",
  );

export const Track = z.discriminatedUnion("type", [
  VideoTrack,
  OverlayTrack,
  AudioTrack,
  TextTrack,
  SubtitleTrack,
]);

const Duck = z
  .strictObject({
    amount: Fraction.default(0.7).describe("How much quieter: 0 not at all, 1 nearly silent"),
    threshold: z
      .number()
      .min(0.001)
      .max(1)
      .default(0.02)
      .describe("Level of the voice from which on the music goes down"),
    attack: z.number().min(0.001).max(2).default(0.05).describe("Seconds to go down"),
    release: z.number().min(0.01).max(9).default(0.6).describe("Seconds to come back"),
  })
  .describe("Music goes down while somebody speaks");

export const Music = z
  .strictObject({
    src: Source,
    volume: Volume.default(0.5),
    start: Seconds.default(0).describe("Second of the timeline at which it begins"),
    trim: Trim.optional(),
    loop: z.boolean().default(true).describe("Begins again until the video ends"),
    fadeIn: Length.optional(),
    fadeOut: Length.optional().describe("Seconds to fade out at the end of the video"),
    duck: z
      .union([z.boolean(), Duck])
      .default(true)
      .describe(
        "Goes down under the voice tracks; without any, under the sound of the video clips",
      ),
  })
  .describe("Background music");

export const Timeline = z
  .strictObject({
    tracks: z.array(Track).min(1).max(limits.tracks),
    music: Music.optional(),
  })
  .refine((timeline) => timeline.tracks.filter((track) => track.type === "video").length <= 1, {
    error: "only one track may be of type video; put the others in tracks of type overlay",
    path: ["tracks"],
  })
  .describe(
    'A video as tracks of clips; times in seconds. Smallest one: {"tracks":[{"type":"video","clips":[{"src":"a.jpg"}]}]}',
  );

const Even = z
  .int()
  .min(16)
  .max(4096)
  .refine((n) => n % 2 === 0, "must be even, since the video format stores colour for 2x2 pixels");
const ratePattern = /^\d{1,6}\/\d{1,5}$/;
const frameRate = (text: number | string): number => {
  const [num = 0, den = 1] = String(text).split("/").map(Number);
  return num / den;
};

export const Output = z
  .strictObject({
    width: Even.default(1080),
    height: Even.default(1920),
    fps: z
      .union([z.int(), z.string().regex(ratePattern, 'must look like "30000/1001"')])
      .refine((fps) => frameRate(fps) >= 1 && frameRate(fps) <= 60, "must be from 1 to 60")
      .default(30)
      .describe('Frames per second: a whole number or a fraction such as "24000/1001"'),
    format: z.enum(["mp4", "mov"]).default("mp4"),
    quality: z
      .enum(["draft", "standard", "high"])
      .default("standard")
      .describe("draft renders fastest; high makes a larger file"),
    background: z
      .string()
      .regex(/^#[0-9a-fA-F]{6}$/, "must be a colour as #RRGGBB")
      .default("#000000")
      .describe("Colour where no clip is"),
    durationFrom: z
      .enum(["longest", "video", "audio"])
      .default("video")
      .describe(
        "What sets the length: video = the clips of video and overlay tracks (default); audio = the voice and effect tracks; longest = whatever ends last, texts included. What goes beyond is cut",
      ),
    fill: z
      .enum(["freeze", "loop", "background"])
      .default("freeze")
      .describe(
        "When the main picture is shorter than the video: hold its last frame, play its clips again, or show the background",
      ),
  })
  .describe(
    "Size, rate and format of the result. Default: upright 1080x1920 at 30 frames a second",
  );

export const renderImplementations = ["ffmpeg-direct", "ffmpeg-python", "fluent-ffmpeg"] as const;

/** What a job of kind "timeline" is given. */
export const TimelineRequest = z.strictObject({
  timeline: Timeline,
  output: Output.prefault({}),
  options: z
    .strictObject({
      impl: z
        .enum(renderImplementations)
        .default("ffmpeg-direct")
        .describe(
          "ffmpeg-python and fluent-ffmpeg use the adapter; should it fail, the direct command is used",
        ),
    })
    .prefault({}),
});

export type Timeline = z.output<typeof Timeline>;
export type TimelineRequest = z.output<typeof TimelineRequest>;
export type TimelineInput = z.input<typeof Timeline>;
export type TimelineRequestInput = z.input<typeof TimelineRequest>;
export type Output = z.output<typeof Output>;
export type OutputInput = z.input<typeof Output>;
export type VideoClip = z.output<typeof VideoClip>;
export type OverlayClip = z.output<typeof OverlayClip>;
export type AudioClip = z.output<typeof AudioClip>;
export type TextClip = z.output<typeof TextClip>;
export type TextStyle = z.output<typeof TextStyle>;
export type Cue = z.output<typeof Cue>;
export type Music = z.output<typeof Music>;
export type Track = z.output<typeof Track>;
export type Anchor = (typeof anchors)[number];
export type Zoom = z.output<typeof Zoom>;

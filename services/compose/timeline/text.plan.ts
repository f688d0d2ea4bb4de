import { anchorPoint } from "./geometry.plan.ts";
import { breakLines } from "./line-break.plan.ts";
import type { ResolvedStyle, TextEvent } from "./plan.types.ts";
import { frameAt, type Rate, toUs, type Us } from "./time.plan.ts";
import type { Anchor, Cue, TextStyle, Timeline } from "./timeline.schema.ts";

interface Canvas {
  width: number;
  height: number;
  rate: Rate;
  /** Length of the video. */
  frames: number;
}
type Cues = ReadonlyMap<number, readonly Cue[]>;

/** Line height of Noto Sans SC in em. */
export const lineHeightEm = 1.448;
const sideMargin = 0.06;

const defaults = {
  subtitle: { size: 0.056, outline: 0.09, position: "bottom" },
  text: { size: 0.1, outline: 0.05, position: "center" },
} as const satisfies Record<string, { size: number; outline: number; position: Anchor }>;

export function resolveStyle(
  kind: "subtitle" | "text",
  style: TextStyle,
  canvas: Pick<Canvas, "width" | "height">,
): ResolvedStyle {
  const preset = defaults[kind];
  const em = Math.max(4, (style.size ?? preset.size) * Math.min(canvas.width, canvas.height));
  return {
    font: style.font ?? "Noto Sans SC",
    em,
    colour: style.colour ?? "#FFFFFF",
    bold: style.bold ?? true,
    italic: style.italic ?? false,
    outline: style.box ? 0 : em * (style.outline ?? preset.outline),
    outlineColour: style.outlineColour ?? "#000000",
    // Of a box, the shadow is its padding.
    shadow: style.box ? em * 0.25 : em * (style.shadow ?? 0.03),
    shadowColour: style.shadowColour ?? "#00000080",
    box: style.box,
    spacing: em * (style.spacing ?? 0),
  };
}

/** Apps lay their buttons and captions over the lower part of an upright video. */
function edgeMargin(style: TextStyle, anchor: Anchor, canvas: Canvas): number {
  const upright = canvas.height > canvas.width;
  const standard = !upright ? 0.06 : anchor.startsWith("bottom") ? 0.18 : 0.1;
  return (style.margin ?? standard) * canvas.height;
}

/** Place of the anchor when it is not given exactly. */
function placeText(style: TextStyle, anchor: Anchor, canvas: Canvas): { x: number; y: number } {
  const part = anchorPoint(anchor);
  const margin = edgeMargin(style, anchor, canvas);
  const side = sideMargin * canvas.width;
  return {
    x: part.x === 0 ? side : part.x === 1 ? canvas.width - side : canvas.width / 2,
    y: part.y === 0 ? margin : part.y === 1 ? canvas.height - margin : canvas.height / 2,
  };
}

const lines = (text: string, style: TextStyle, resolved: ResolvedStyle, canvas: Canvas) => {
  const width = (style.maxWidth ?? 0.86) * canvas.width;
  const perEm = 1 + resolved.spacing / resolved.em + (resolved.bold ? 0.02 : 0);
  return breakLines(text, width / (resolved.em * perEm));
};

function textClips(timeline: Timeline, canvas: Canvas): TextEvent[] {
  return timeline.tracks.flatMap((track) => {
    if (track.type !== "text") return [];
    return track.clips.map((clip): TextEvent => {
      const style = { ...track.style, ...clip.style };
      const resolved = resolveStyle("text", style, canvas);
      const anchor = style.position ?? defaults.text.position;
      const place = placeText(style, anchor, canvas);
      const startUs = toUs(clip.start);
      return {
        startFrame: frameAt(startUs, canvas.rate),
        endFrame:
          clip.duration === undefined
            ? canvas.frames
            : frameAt(startUs + toUs(clip.duration), canvas.rate),
        lines: lines(clip.text, style, resolved, canvas),
        style: resolved,
        anchor,
        x: clip.x === undefined ? place.x : clip.x * canvas.width,
        y: clip.y === undefined ? place.y : clip.y * canvas.height,
        animation: clip.animation,
      };
    });
  });
}

interface StackedTrack {
  anchor: Anchor;
  exact: boolean;
  events: TextEvent[];
}

/** Cues of one track in order; one that is still shown when the next begins ends there. */
function cueFrames(cues: readonly Cue[], offsetUs: Us, rate: Rate) {
  const placed = cues
    .map((cue) => ({
      text: cue.text,
      startFrame: Math.max(0, frameAt(toUs(cue.start) + offsetUs, rate)),
      endFrame: frameAt(toUs(cue.end) + offsetUs, rate),
    }))
    .sort((a, b) => a.startFrame - b.startFrame || a.endFrame - b.endFrame);
  return placed.map((cue, index) => {
    const next = placed[index + 1];
    const endFrame =
      next && next.startFrame > cue.startFrame
        ? Math.min(cue.endFrame, next.startFrame)
        : cue.endFrame;
    return { ...cue, endFrame };
  });
}

function subtitleTracks(timeline: Timeline, cues: Cues, canvas: Canvas): StackedTrack[] {
  return timeline.tracks.flatMap((track, at): StackedTrack[] => {
    if (track.type !== "subtitle") return [];
    const style = track.style ?? {};
    const resolved = resolveStyle("subtitle", style, canvas);
    const anchor = style.position ?? defaults.subtitle.position;
    const events = cueFrames(cues.get(at) ?? [], toUs(track.offset), canvas.rate).map(
      (cue): TextEvent => ({
        startFrame: cue.startFrame,
        endFrame: cue.endFrame,
        lines: lines(cue.text, style, resolved, canvas),
        style: resolved,
        anchor,
        ...placeText(style, anchor, canvas),
        animation: "none",
      }),
    );
    return [{ anchor, exact: style.margin !== undefined, events }];
  });
}

/** Space between a text and the edge of its box. */
const padding = ({ style }: TextEvent) => (style.box ? style.shadow : 0);
const heightOf = (event: TextEvent) =>
  event.lines.length * event.style.em * lineHeightEm + 2 * padding(event);

/**
 * Moves subtitles of several tracks at one place apart, each by the height of what is shown there at the
 * same time: at the bottom the last track stays and the others lie above it, at the top the reverse.
 * A track with a margin of its own is where that says.
 */
function stack(tracks: readonly StackedTrack[]): TextEvent[] {
  return tracks.flatMap((track, index) => {
    const upwards = anchorPoint(track.anchor).y === 1;
    const nearer = tracks.filter(
      (other, at) =>
        other.anchor === track.anchor && !other.exact && (upwards ? at > index : at < index),
    );
    if (track.exact) return track.events;
    return track.events.map((event) => {
      const shift = nearer
        .map((other) =>
          Math.max(
            0,
            ...other.events
              .filter((e) => e.startFrame < event.endFrame && e.endFrame > event.startFrame)
              .map(heightOf),
          ),
        )
        .reduce((sum, height) => sum + height, 0);
      const whole = shift > 0 ? shift + padding(event) : 0;
      return { ...event, y: event.y + (upwards ? -whole : whole) };
    });
  });
}

/** Every text with its frames, lines and place. */
export function planTexts(timeline: Timeline, cues: Cues, canvas: Canvas): TextEvent[] {
  const all = [...textClips(timeline, canvas), ...stack(subtitleTracks(timeline, cues, canvas))];
  return all
    .map((event) => ({ ...event, endFrame: Math.min(event.endFrame, canvas.frames) }))
    .filter((event) => event.endFrame > event.startFrame && event.lines.length > 0);
}

/** Where the last text ends; a text clip without a duration counts three seconds. */
export function textsEndUs(timeline: Timeline, cues: Cues): Us {
  const ends = timeline.tracks.flatMap((track, at) => {
    if (track.type === "text")
      return track.clips.map((clip) => toUs(clip.start + (clip.duration ?? 3)));
    if (track.type === "subtitle")
      return (cues.get(at) ?? []).map((cue) => toUs(cue.end + track.offset));
    return [];
  });
  return ends.reduce((latest, end) => Math.max(latest, end), 0);
}

import type { MediaFacts } from "../media/probe-facts.policy.ts";
import type { Rate, Us } from "./time.plan.ts";
import type { Anchor, Output, transitionKinds, Zoom } from "./timeline.schema.ts";

/** Probe facts by source, as written in the timeline. */
export type Facts = ReadonlyMap<string, MediaFacts>;

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** One stretch of a source on the output's frame grid. */
export interface Take {
  src: string;
  /** First source time that is shown. */
  fromUs: Us;
  speed: number;
  /** Output frames that the source really has from there. */
  frames: number;
}

/** How a picture is brought to its place: cut from the source, then scaled. */
export interface Placement {
  /** Part of the upright source. */
  crop?: Rect;
  /** Size after scaling. */
  width: number;
  height: number;
}

export interface PicturePiece {
  type: "picture";
  /** Path of the clip in the timeline, for errors. */
  path: string;
  still: boolean;
  /** One take; several where a short video is repeated. */
  takes: Take[];
  /** Frames on the timeline; what the takes lack is the last frame, held. */
  frames: number;
  placement: Placement;
  /** Where it lies on the canvas, and the small copy of it that is blurred behind it; none: bars. */
  surround?: { x: number; y: number; backdrop?: Placement };
  alpha: boolean;
  zoom?: Zoom & { frames: number };
  fadeInFrames: number;
  fadeOutFrames: number;
}
export interface ColourPiece {
  type: "colour";
  frames: number;
}
export interface MainPiece {
  piece: PicturePiece | ColourPiece;
  startFrame: number;
  /** Into the next piece; both are seen during these frames. */
  transition?: { kind: (typeof transitionKinds)[number]; frames: number };
}
export interface OverlayPiece {
  piece: PicturePiece;
  startFrame: number;
  x: number;
  y: number;
  opacity: number;
}

/** One sound on the sample grid of its bus. */
export interface SoundPiece {
  path: string;
  src: string;
  /** One channel, which goes to both sides at full level. */
  mono: boolean;
  fromUs: Us;
  speed: number;
  volume: number;
  startSample: number;
  samples: number;
  fadeInSamples: number;
  fadeOutSamples: number;
}
/** Sounds that never overlap, in order. */
export type Lane = SoundPiece[];

export interface AudioPlan {
  voice: Lane[];
  /** Sound of the clips and effects. */
  program: Lane[];
  music?: {
    lane: Lane;
    volume: number;
    startSample: number;
    fadeInSamples: number;
    fadeOutSamples: number;
    duck?: {
      key: "voice" | "program";
      threshold: number;
      ratio: number;
      attackMs: number;
      releaseMs: number;
    };
  };
}

export interface ResolvedStyle {
  font: string;
  /** Letter size (em) in pixels of the canvas. */
  em: number;
  colour: string;
  bold: boolean;
  italic: boolean;
  outline: number;
  outlineColour: string;
  shadow: number;
  shadowColour: string;
  box?: string;
  spacing: number;
}
export interface TextEvent {
  startFrame: number;
  endFrame: number;
  lines: string[];
  style: ResolvedStyle;
  anchor: Anchor;
  x: number;
  y: number;
  animation: "none" | "fade" | "rise";
}

/** Everything that determines the result, in whole frames, samples and pixels. */
export interface RenderPlan {
  width: number;
  height: number;
  rate: Rate;
  frames: number;
  samples: number;
  sampleRate: number;
  background: string;
  format: Output["format"];
  quality: Output["quality"];
  main: MainPiece[];
  overlays: OverlayPiece[];
  texts: TextEvent[];
  /** Absent: nothing sounds, the result has no audio stream. */
  audio?: AudioPlan;
  /** What was filled in or cut, for the job log. */
  notes: string[];
}

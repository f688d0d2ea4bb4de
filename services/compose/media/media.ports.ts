import type { ExecutorTools } from "../executor.ts";

/** What is known of one source file, as a viewer sees it: after rotation, with square pixels. */
export interface MediaFacts {
  /** Absent: the file has no picture. */
  video?: {
    /** Displayed size: rotation applied, pixels made square. */
    width: number;
    height: number;
    /** Size of the decoded frames after rotation, where their pixels are not square; otherwise as above. */
    storedWidth: number;
    storedHeight: number;
    /** Frames per second as a fraction; the average where the rate varies. */
    rate: { num: number; den: number };
    /** A picture that does not move: one frame. */
    still: boolean;
    alpha: boolean;
    /** FFmpeg's names, e.g. "bt709", "smpte170m", "rgb"; absent where the file does not say. */
    colorSpace?: string;
    /** "tv" or "pc"; absent where the file does not say. */
    colorRange?: string;
    durationUs?: number;
  };
  /** Absent: the file has no sound. */
  audio?: { sampleRate: number; channels: number; durationUs?: number };
  /** Length of the whole file; absent for a still picture. */
  durationUs?: number;
}

export type Probe = (file: string, tools: ExecutorTools, clip: string) => Promise<MediaFacts>;
/** Brings a source to a local file of the work directory. `clip` names it in errors, e.g. "tracks[0].clips[2]". */
export type Localise = (src: string, tools: ExecutorTools, clip: string) => Promise<string>;

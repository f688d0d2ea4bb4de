/** Bounds of a timeline: far above what a short video needs, far below what would harm a node. */
export const TimelineLimits = {
  durationS: 4 * 3600,
  tracks: 32,
  /** Clips of one track, and pieces of the whole plan after repeats. */
  clips: 1_000,
  pieces: 2_000,
  cues: 10_000,
  textLength: 2_000,
  srtLength: 2_000_000,
  sourceLength: 4_096,
  /** Times that a short source is repeated. */
  takes: 200,
  /** Image clips without a duration. */
  imageS: 3,
  sampleRate: 48_000,
} as const;

/** Limits of health checks, once. Times in milliseconds. */
export const healthLimits = {
  /** One look at one dependency. */
  checkMs: 1_000,
  /** An answer serves all who ask within this time: probes must not hammer what they watch. */
  cacheMs: 1_000,
  /** A compose node whose last report is older counts as gone. */
  nodeFreshMs: 15_000,
  /** Time for the head of a request to the health listener, and for the whole of it. */
  requestMs: 5_000,
} as const;

/** Limits of metrics and traces, once. Times in milliseconds unless the name says otherwise. */
export const telemetryLimits = {
  /** New traces that one gateway begins in a second: the cost of tracing is bounded, whatever the load. */
  tracesPerSecondMax: 50,
  /** Traces that may be begun at once after a quiet time. */
  tracesAtOnceMax: 200,
  /** Spans that wait for the exporter; more are dropped. */
  spansQueuedMax: 4_096,
  spansPerExportMax: 256,
  exportDelayMs: 1_000,
  exportTimeoutMs: 5_000,
  /** Time for the last spans when a node stops. */
  closeMsMax: 2_000,
  /** A collector that stays away is worth one line in the log each so often. */
  failureLogMs: 60_000,
  /** One text attribute of a span. */
  attributeCharsMax: 500,
  /** Sampling interval of the event loop's delay. */
  loopResolutionMs: 20,
  /** Names of queues that get numbers of their own; jobs of further ones are counted as "other". */
  queuesMax: 50,
  /** Compose nodes that get numbers of their own. */
  nodesMax: 200,
} as const;

/** Upper bounds of histograms, in seconds. */
export const secondBuckets = {
  http: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  action: [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30],
  wait: [0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400],
  run: [0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600, 1_800, 3_600],
} as const;
/** Seconds of work for one second of video. */
export const renderRatioBuckets = [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 4, 8, 16] as const;

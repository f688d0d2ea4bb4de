/** Limits of a move. */
export const moveLimits = {
  recordsAtOnce: 100,
  jobsAtOnce: 100,
  tokensAtOnce: 200,
  /** Questions under way at the same time where a store answers one at a time. */
  questionsAtOnce: 16,
  objectsAtOnce: 6,
  /** Of one object, before the move stops. */
  readTriesMax: 3,
  objectsPerPage: 500,
  /** Differences that are named of each kind; the others are counted. */
  namedMax: 20,
  /** The progress file is written no more often than this. */
  saveEachMs: 1_000,
  /** How often a terminal shows how far it is; a log file gets a line ten times less often. */
  showEachMs: 500,
} as const;

/** Limits of the agents' interface, once. Times in milliseconds, sizes in bytes. */
export const mcpLimits = {
  /** A tool call as a whole; the longest tool is dubbing. */
  callMs: 180_000,
  /** What jobs_wait waits at most, and how often it looks. */
  waitSecondsMax: 60,
  waitSecondsDefault: 20,
  waitPollMs: 250,
  /** How long a preview waits for a contact sheet that has to be made first. */
  sheetMs: 60_000,
  /** An image inside an answer between nodes; base64 adds a third, and a message of the mesh holds 1 MiB. */
  meshImageBytes: 760_000,
  /** The same where everything runs in one process. */
  localImageBytes: 6_000_000,
  /** Jobs, runs and storyboards in a listing of resources, each. */
  resourcesMax: 20,
  issuesMax: 12,
  requestBytes: 8 * 1024 * 1024,
} as const;

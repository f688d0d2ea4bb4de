/** Limits of the servers that tests run against. All of them are generous: they end what hangs, not what is slow. */
export const limits = {
  /** From the start of a process until it answers; a database that recovers from a kill needs the most. */
  readyMs: 60_000,
  /** One attempt to reach a server while waiting for it. */
  pingMs: 3_000,
  /** Between two such attempts. */
  pingPauseMs: 50,
  /** How long a server given by the environment may take to answer. */
  givenMs: 15_000,
  /** From asking a process to end until it is killed. */
  stopGraceMs: 10_000,
  /** From killing a process until nobody waits any more: it hangs in the kernel. */
  killMs: 10_000,
  /** One step of an installation: a compilation, or packages fetched over a slow line. */
  installStepMs: 20 * 60_000,
  /** How long one run waits for another that installs the same thing. */
  installWaitMs: 30 * 60_000,
  installWaitPauseMs: 250,
  /** Starts on another port when somebody took the one that was free a moment before. */
  portAttempts: 3,
  /** Of a log, in an error message. */
  logTailChars: 1_500,
} as const;

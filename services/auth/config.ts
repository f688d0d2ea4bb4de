/** Limits of sign-in, once. Times in milliseconds. */
export const authLimits = {
  /** A token ends this long after the login, whether used or not. */
  tokenMs: 12 * 3_600_000,
  /** Newest tokens that one account keeps; an older one ends with the next login. */
  tokensMax: 50,
  /** How long a checked token is believed without a look into the store. Logout ends it at once. */
  verifyCacheMs: 30_000,
  verifyCacheMax: 5_000,
  /** Failed logins of one account from one address that cost nothing. */
  failuresFree: 5,
  /** First wait after those; doubles with each further failure up to `waitMsMax`. */
  waitMs: 2_000,
  waitMsMax: 15 * 60_000,
  /** Failures are forgotten after this much silence. */
  forgetMs: 30 * 60_000,
  /** Pairs of account and address that are remembered. */
  throttleMax: 10_000,
  /** Password checks at the same time, and waiting; each takes 32 MiB and some 60 ms of a core. */
  checksAtOnce: 2,
  checksWaitingMax: 64,
} as const;

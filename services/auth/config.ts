/** Limits of sign-in, once. Times in milliseconds. */
export const authLimits = {
  /** A token ends this long after the login, whether used or not. */
  tokenMs: 12 * 3_600_000,
  /** Newest tokens that one account keeps; an older one ends with the next login. */
  tokensMax: 50,
  /** How long a checked token is believed without a look into the store. Logout ends it at once. */
  verifyCacheMs: 30_000,
  verifyCacheMax: 5_000,
  /** The part of it for which Redis keeps a token, where REDIS_URL is set; the rest is each node's own. */
  sharedTokenMs: 15_000,
  /** Failed logins of one account from one address that cost nothing. */
  failuresFree: 5,
  /** First wait after those; doubles with each further failure up to `waitMsMax`. */
  waitMs: 2_000,
  waitMsMax: 15 * 60_000,
  /** Failures are forgotten after this much silence. */
  forgetMs: 30 * 60_000,
  /** Pairs of account and address that are remembered. */
  throttleMax: 10_000,
  /** A verification code: six digits, tried through by chance in 1 of 200,000 codes. */
  codeDigits: 6,
  codeAttemptsMax: 5,
  codeMs: 5 * 60_000,
  /** Before this time an address gets no further code. */
  codeResendMs: 60_000,
  /** Codes for one purpose that one address gets in a window. */
  codesPerWindowMax: 5,
  codeWindowMs: 3_600_000,
  /** Addresses that are remembered where there is no Redis. */
  codesMax: 20_000,
  /** Password checks at the same time, and waiting; each takes 32 MiB and some 60 ms of a core. */
  checksAtOnce: 2,
  checksWaitingMax: 64,
} as const;

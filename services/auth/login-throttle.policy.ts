import { authLimits } from "./config.ts";

/** Failed logins of one account from one address. */
export interface Failures {
  count: number;
  /** No further try is looked at before this time, in milliseconds since the epoch. */
  blockedUntil: number;
  lastAt: number;
}

/** Milliseconds until the next try is looked at; 0: now. */
export const waitOf = (failures: Failures | undefined, now: number): number =>
  failures ? Math.max(0, failures.blockedUntil - now) : 0;

const waitMsAfter = (count: number): number => {
  const over = count - authLimits.failuresFree;
  if (over <= 0) return 0;
  return Math.min(authLimits.waitMsMax, authLimits.waitMs * 2 ** Math.min(30, over - 1));
};

/** 0 without a wait: another node, whose clock is behind, must not take "now" for one. */
const blockedUntilAfter = (count: number, now: number): number => {
  const waitMs = waitMsAfter(count);
  return waitMs === 0 ? 0 : now + waitMs;
};

/** Some tries are free, then each failure doubles the wait. */
export function failed(failures: Failures | undefined, now: number): Failures {
  const remembered = failures && now - failures.lastAt < authLimits.forgetMs ? failures.count : 0;
  const count = remembered + 1;
  return { count, blockedUntil: blockedUntilAfter(count, now), lastAt: now };
}

/** The wait counts from the answer: a password check that is slow must not use it up. */
export const answered = (failures: Failures, now: number): Failures => ({
  ...failures,
  blockedUntil: blockedUntilAfter(failures.count, now),
  lastAt: now,
});

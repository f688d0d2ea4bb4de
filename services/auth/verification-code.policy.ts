import { authLimits } from "./config.ts";

/** What is known of the codes for one purpose at one address. Times in milliseconds since the epoch. */
export interface CodeRecord {
  /** Keyed hash of the code; absent once it was used or tried too often. */
  digest?: string;
  expiresAt: number;
  attemptsLeft: number;
  /** No further code before this time. */
  resendAt: number;
  /** Codes sent since `windowStart`. */
  sent: number;
  windowStart: number;
}

/** How long the record must be kept: for its code, and so that the limits on sending hold. */
export const keepMs = (record: CodeRecord, now: number): number =>
  Math.max(record.expiresAt, record.resendAt, record.windowStart + authLimits.codeWindowMs) - now;

/** A new code takes the place of the one before. `waitMs`: none yet, the address got one just now or too many. */
export function issueCode(
  record: CodeRecord | undefined,
  digest: string,
  now: number,
): { waitMs: number } | { record: CodeRecord } {
  const fresh = !record || now - record.windowStart >= authLimits.codeWindowMs;
  const { sent, windowStart } = fresh ? { sent: 0, windowStart: now } : record;
  const resendMs = record ? record.resendAt - now : 0;
  if (resendMs > 0) return { waitMs: resendMs };
  if (sent >= authLimits.codesPerWindowMax)
    return { waitMs: windowStart + authLimits.codeWindowMs - now };
  return {
    record: {
      digest,
      expiresAt: now + authLimits.codeMs,
      attemptsLeft: authLimits.codeAttemptsMax,
      resendAt: now + authLimits.codeResendMs,
      sent: sent + 1,
      windowStart,
    },
  };
}

/** `none`: there is no code that could be tried, be it that it ended, was used or was tried too often. */
export type CodeVerdict = "accepted" | "wrong" | "none";

/**
 * One try. A right code is used up by it, a wrong try costs one of the attempts.
 * @param isRight compares in constant time.
 */
export function checkCode(
  record: CodeRecord | undefined,
  isRight: (digest: string) => boolean,
  now: number,
): { verdict: CodeVerdict; record?: CodeRecord } {
  if (record?.digest === undefined || record.expiresAt <= now) return { verdict: "none" };
  const { digest, ...rest } = record;
  if (isRight(digest)) return { verdict: "accepted", record: { ...rest, attemptsLeft: 0 } };
  const attemptsLeft = record.attemptsLeft - 1;
  return {
    verdict: "wrong",
    record: attemptsLeft > 0 ? { ...record, attemptsLeft } : { ...rest, attemptsLeft },
  };
}

import type { Ms } from "./job.types.ts";

/**
 * A UUID of version 7 (RFC 9562, section 5.7): it begins with the time, so that ids of one time lie together in an
 * index. Time and randomness are given, so that a simulation repeats them.
 */
export function newJobId(now: Ms, random: () => number): string {
  const time = Math.floor(now).toString(16).padStart(12, "0").slice(-12);
  const part = (bits: number) => Math.floor(random() * 2 ** bits);
  const hex = (value: number, digits: number) => value.toString(16).padStart(digits, "0");
  const variant = hex(0x8000 | part(14), 4);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(part(12), 3)}-${variant}-${hex(part(24), 6)}${hex(part(24), 6)}`;
}

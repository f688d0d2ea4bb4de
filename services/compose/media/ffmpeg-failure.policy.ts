import type { ErrorData, ErrorType } from "../../../lib/errors.ts";

/** How an FFmpeg process ended, as far as it matters for telling why. */
export interface FailedExit {
  code: number | null;
  signal: string | null;
  stderrTail: string;
}

const reasonLengthMax = 300;
/** Lines that accompany any failure and explain none. */
const noise =
  /^(conversion failed|error : |error (while )?(opening|initializing|processing|submitting|marking|closing|filtering|muxing|sending|selecting|parsing|reinitializing)|failed to (set|configure|inject)|terminating|task finished|nothing was written|exiting|last message repeated|x264 \[|\[?libx264|qavg|frame=|size=|video:|press \[q\])/i;
/** Bare texts of error codes: true, but the line before them tells what they are about. */
const bare =
  /^(invalid argument|invalid data found when processing input|not found|unknown error)\.?$/i;

/** Cuts directories from anything that looks like a path, so that no layout of the machine leaks. */
export const withoutPaths = (text: string): string =>
  text.replace(/(?:[A-Za-z]:)?(?:[\\/][^\s\\/'":,;]+){2,}/g, (path) =>
    path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1),
  );

/** The line of the error output that says why, without addresses, component pointers and paths. */
export function failureReason(stderrTail: string): string {
  const lines = stderrTail
    .split(/\r?\n/)
    .map((line) => line.replace(/\[[^\]]* @ 0x[0-9a-f]+\]\s*/gi, "").trim())
    .filter(Boolean);
  const telling = lines.filter((line) => !noise.test(line));
  const chosen =
    telling.findLast((line) => !bare.test(line)) ?? telling.at(-1) ?? lines.at(-1) ?? "no message";
  return withoutPaths(chosen).slice(0, reasonLengthMax);
}

/** The error of the table for a process that did not end well. */
export function failureError(exit: FailedExit): { type: ErrorType; data: ErrorData } {
  if (
    /no space left on device|disk quota exceeded|file too large/i.test(exit.stderrTail) ||
    exit.signal === "SIGXFSZ"
  )
    return { type: "DISK_FULL", data: { where: "the work disk of the compose node" } };
  const signal = exit.signal ?? /received signal (\d+)/i.exec(exit.stderrTail)?.[1];
  if (signal)
    return {
      type: "RENDER_FAILED",
      data: {
        reason: `the process was killed (${/^\d/.test(signal) ? `signal ${signal}` : signal}); a machine short of memory does that`,
      },
    };
  return { type: "RENDER_FAILED", data: { reason: failureReason(exit.stderrTail) } };
}

import { execFileSync } from "node:child_process";
import { cpus, loadavg, totalmem } from "node:os";

/** First line of what a program prints; "unknown" where it cannot be run. */
export function commandText(command: string, args: string[]): string {
  try {
    return execFileSync(command, args, { encoding: "utf8" }).trim();
  } catch {
    return "unknown";
  }
}

export const commit = (): string => commandText("git", ["rev-parse", "--short", "HEAD"]);

export const processor = (): string => `${cpus()[0]?.model ?? "unknown"} x ${cpus().length}`;

/** What a report says about where, when and with what it was made. `more`: what else matters to it, a part each. */
export const machineText = (...more: string[]): string =>
  [
    processor(),
    `${Math.round(totalmem() / 1024 ** 3)} GiB`,
    `Node ${process.versions.node}`,
    `load average ${loadavg()[0]?.toFixed(1)}`,
    ...more,
    `commit ${commit()}`,
    new Date().toISOString().slice(0, 10),
  ].join(", ");

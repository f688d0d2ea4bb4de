import { execFileSync } from "node:child_process";

/** First line of what a program prints; "unknown" where it cannot be run. */
export function commandText(command: string, args: string[]): string {
  try {
    return execFileSync(command, args, { encoding: "utf8" }).trim();
  } catch {
    return "unknown";
  }
}

export const commit = (): string => commandText("git", ["rev-parse", "--short", "HEAD"]);

import { formatWithOptions } from "node:util";
import type { Logger } from "moleculer";
import type { Config } from "../../../lib/config.ts";

const levels = ["fatal", "error", "warn", "info", "debug", "trace"] as const;

/** Log lines on standard error, in the form and from the level that the settings name. */
export function bridgeLog({ LOG_LEVEL, LOG_FORMAT }: Config): Logger {
  const shown = levels.indexOf(LOG_LEVEL);
  const writer =
    (level: (typeof levels)[number], at: number) =>
    (...args: unknown[]) => {
      if (at > shown) return;
      const msg = formatWithOptions({ colors: false, depth: 4 }, ...args);
      const time = new Date().toISOString();
      const line =
        LOG_FORMAT === "json"
          ? JSON.stringify({ time, level, service: "bridge", msg })
          : `[${time}] ${level.toUpperCase().padEnd(5)} ${msg}`;
      process.stderr.write(`${line}\n`);
    };
  return Object.fromEntries(
    levels.map((level, at) => [level, writer(level, at)]),
  ) as unknown as Logger;
}

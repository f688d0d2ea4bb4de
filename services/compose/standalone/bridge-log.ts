import { hostname } from "node:os";
import { formatWithOptions } from "node:util";
import type { Logger } from "moleculer";
import { type Config, secretsOf } from "../../../lib/config.ts";
import { redactText } from "../../../lib/telemetry/redact.policy.ts";
import { currentWork } from "../../../lib/telemetry/work-scope.ts";

const levels = ["fatal", "error", "warn", "info", "debug", "trace"] as const;

/** How lines, spans and numbers name this bridge. */
export const bridgeName = ({ NODE_ID, PORT }: Pick<Config, "NODE_ID" | "PORT">): string =>
  NODE_ID ?? `bridge:${hostname()}:${PORT}`;

/**
 * Log lines on standard error, in the form and from the level that the settings name. As JSON they say which job,
 * attempt and trace they are about, where that is known.
 */
export function bridgeLog(config: Config): Logger {
  const { LOG_LEVEL, LOG_FORMAT } = config;
  const shown = levels.indexOf(LOG_LEVEL);
  const secrets = secretsOf(config);
  const node = bridgeName(config);
  const writer =
    (level: (typeof levels)[number], at: number) =>
    (...args: unknown[]) => {
      if (at > shown) return;
      const msg = redactText(formatWithOptions({ colors: false, depth: 4 }, ...args), secrets);
      const time = new Date().toISOString();
      const { jobId, attempt, traceId } = currentWork() ?? {};
      const line =
        LOG_FORMAT === "json"
          ? JSON.stringify({ time, level, node, service: "bridge", msg, jobId, attempt, traceId })
          : `[${time}] ${level.toUpperCase().padEnd(5)} ${msg}`;
      process.stderr.write(`${line}\n`);
    };
  return Object.fromEntries(
    levels.map((level, at) => [level, writer(level, at)]),
  ) as unknown as Logger;
}

import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Config } from "../../lib/config.ts";
import { AppError } from "../../lib/errors.ts";
import { telemetryOf } from "../../lib/telemetry/node-telemetry.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest();

const isLoopback = (address: string | undefined) =>
  address !== undefined && /^(127\.|::1$|::ffff:127\.)/.test(address);

/**
 * Numbers tell much about an installation: they are for this machine, or for who has the token. A request that some
 * proxy of this machine hands on is not of this machine, whatever it says about where it came from.
 */
function mayReadMetrics(req: IncomingMessage, config: Config): boolean {
  const given = /^Bearer +(\S+) *$/i.exec(req.headers.authorization ?? "")?.[1];
  if (config.METRICS_TOKEN !== undefined && given !== undefined)
    return timingSafeEqual(sha256(given), sha256(config.METRICS_TOKEN));
  const handedOn = "x-forwarded-for" in req.headers || "forwarded" in req.headers;
  return isLoopback(req.socket.remoteAddress) && !handedOn;
}

/** The numbers of the node with this configuration. @throws AppError FORBIDDEN, ROUTE_NOT_FOUND */
export async function metricsFor(req: IncomingMessage, config: Config) {
  const { metrics } = telemetryOf(config);
  if (!metrics) throw new AppError("ROUTE_NOT_FOUND", { method: "GET", path: "/metrics" });
  if (!mayReadMetrics(req, config))
    throw new AppError("FORBIDDEN", {
      reason: {
        en: "metrics are for this machine, or for the bearer of METRICS_TOKEN",
        zh: "指标仅限本机访问，或使用 METRICS_TOKEN 令牌",
      },
    });
  return metrics.text();
}

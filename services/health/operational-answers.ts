import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { ServiceBroker } from "moleculer";
import type { Config } from "../../lib/config.ts";
import { AppError } from "../../lib/errors.ts";
import { telemetryOf } from "../../lib/telemetry/node-telemetry.ts";
import { Readiness } from "./readiness.ts";

export interface OperationalAnswer {
  status: number;
  contentType: string;
  body: string;
}

/** What operators and their machines ask a node for; the same on the gateway and on a health listener. */
export const operationalPaths = ["/healthz", "/readyz", "/metrics"] as const;
export type OperationalPath = (typeof operationalPaths)[number];

const JSON_TYPE = "application/json; charset=utf-8";
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

const readiness = new WeakMap<ServiceBroker, Readiness>();

function readinessOf(broker: ServiceBroker, config: Config): Readiness {
  let own = readiness.get(broker);
  if (!own) {
    own = new Readiness(broker, config);
    readiness.set(broker, own);
  }
  return own;
}

/** @throws AppError FORBIDDEN, ROUTE_NOT_FOUND */
export async function answerOperational(
  path: OperationalPath,
  req: IncomingMessage,
  { broker, config }: { broker: ServiceBroker; config: Config },
): Promise<OperationalAnswer> {
  switch (path) {
    case "/healthz":
      return { status: 200, contentType: JSON_TYPE, body: '{"status":"ok"}' };
    case "/readyz": {
      const report = await readinessOf(broker, config).read();
      const status = report.status === "down" ? 503 : 200;
      return { status, contentType: JSON_TYPE, body: `${JSON.stringify(report)}\n` };
    }
    case "/metrics": {
      const { metrics } = telemetryOf(config);
      if (!metrics) throw new AppError("ROUTE_NOT_FOUND", { method: "GET", path });
      if (!mayReadMetrics(req, config))
        throw new AppError("FORBIDDEN", {
          reason: {
            en: "metrics are for this machine, or for the bearer of METRICS_TOKEN",
            zh: "指标仅限本机访问，或使用 METRICS_TOKEN 令牌",
          },
        });
      return { status: 200, ...(await metrics.text()) };
    }
    default:
      return unreachable(path);
  }
}

function unreachable(path: never): never {
  throw new Error(`not an operational path: ${path}`);
}

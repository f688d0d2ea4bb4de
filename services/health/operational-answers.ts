import type { IncomingMessage } from "node:http";
import type { ServiceBroker } from "moleculer";
import type { Config } from "../../lib/config.ts";
import { metricsFor } from "./metrics-access.ts";
import type { OperationalPath } from "./operational-paths.ts";
import { Readiness } from "./readiness.ts";

export interface OperationalAnswer {
  status: number;
  contentType: string;
  body: string;
}

const JSON_TYPE = "application/json; charset=utf-8";
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
    case "/metrics":
      return { status: 200, ...(await metricsFor(req, config)) };
    default:
      return unreachable(path);
  }
}

function unreachable(path: never): never {
  throw new Error(`not an operational path: ${path}`);
}

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { ServiceBroker } from "moleculer";
import { type Config, ConfigError } from "../../lib/config.ts";
import { asAppError, errorMessage, errorTable } from "../../lib/errors.ts";
import { healthLimits } from "./config.ts";
import { answerOperational } from "./operational-answers.ts";
import { type OperationalPath, operationalPaths } from "./operational-paths.ts";

export interface HealthListener {
  /** From now on it answers 503. */
  stopping(): void;
  close(): Promise<void>;
}

const pathOf = (req: IncomingMessage) => (req.url ?? "/").split("?", 1)[0];

function send(res: ServerResponse, status: number, contentType: string, body: string): void {
  res.writeHead(status, { "Content-Type": contentType, "Cache-Control": "no-store" });
  res.end(body);
}

const sendPlain = (res: ServerResponse, status: number, text: string) =>
  send(res, status, "text/plain; charset=utf-8", `${text}\n`);

async function answer(
  req: IncomingMessage,
  res: ServerResponse,
  node: { broker: ServiceBroker; config: Config },
): Promise<void> {
  const path = operationalPaths.find((one) => one === pathOf(req)) as OperationalPath | undefined;
  if (!path) return sendPlain(res, 404, `only ${operationalPaths.join(", ")} are served here`);
  if (req.method !== "GET" && req.method !== "HEAD") return sendPlain(res, 405, "GET only");
  try {
    const { status, contentType, body } = await answerOperational(path, req, node);
    send(res, status, contentType, body);
  } catch (error) {
    const known = asAppError(error);
    if (known) sendPlain(res, errorTable[known.type].status, errorMessage(known.type, known.data));
    else sendPlain(res, 500, "the check failed");
  }
}

/**
 * A small server for `/healthz`, `/readyz` and `/metrics` alone, on `HEALTH_PORT`: so that probes and Prometheus reach
 * nodes of every role. It opens before the services start and closes after them.
 * @throws ConfigError with one sentence when the port cannot be had.
 */
export async function openHealthListener(
  config: Config,
  broker: ServiceBroker,
): Promise<HealthListener> {
  let stopping = false;
  const server = createServer(
    { requestTimeout: healthLimits.requestMs, headersTimeout: healthLimits.requestMs },
    (req, res) => {
      req.resume();
      if (stopping) sendPlain(res, 503, "stopping");
      else void answer(req, res, { broker, config });
    },
  );
  server.listen(config.HEALTH_PORT, config.HOST);
  try {
    await once(server, "listening");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError(
      `HEALTH_PORT: ${config.HEALTH_PORT} on ${config.HOST} cannot be listened on (${code}). Set it to a free port, or to 0 for none`,
    );
  }
  // Health alone keeps no process alive.
  server.unref();
  return {
    stopping: () => {
      stopping = true;
    },
    close: () =>
      new Promise((resolve) => {
        stopping = true;
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

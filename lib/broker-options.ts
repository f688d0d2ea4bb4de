import { hostname } from "node:os";
import { type BrokerOptions, Errors } from "moleculer";
import { accessMiddleware } from "./access.middleware.ts";
import { MemoryRecordCache } from "./cache/memory-record-cache.ts";
import { RedisRecordCache } from "./cache/redis-record-cache.ts";
import { type Config, secretsOf } from "./config.ts";
import { AppError, asAppError } from "./errors.ts";
import { natsOptions } from "./nats-options.ts";
import { NatsTransporter } from "./nats-transporter.ts";
import { JsonLogger } from "./telemetry/json-logs.ts";

/** Errors of ours come back from other nodes as what they were. */
class ErrorRegenerator extends Errors.Regenerator {
  override restoreCustomError(plain: Errors.PlainMoleculerError): Error {
    const known = asAppError(plain);
    // Moleculer restores every other error by itself when this answers nothing; its types do not say so.
    return (known ? new AppError(known.type, known.data) : undefined) as Error;
  }
}

/** NATS with what signs in there; any other address is for Moleculer, which knows it by its protocol. */
function transporterOf(config: Config): BrokerOptions["transporter"] {
  const { TRANSPORTER } = config;
  if (TRANSPORTER === undefined) return null as unknown as undefined;
  if (!/^(nats|tls):/.test(TRANSPORTER)) return TRANSPORTER as BrokerOptions["transporter"];
  return new NatsTransporter(
    natsOptions(config, nodeName(config)),
  ) as unknown as BrokerOptions["transporter"];
}

/** Name of the node with this configuration in the mesh. */
export const nodeName = (config: Config): string =>
  config.NODE_ID ?? `${hostname()}-${process.pid}`;

/** Lines for people, or one JSON object each for machines. */
function loggerOf(config: Config): BrokerOptions["logger"] {
  if (config.LOG_FORMAT === "json")
    return new JsonLogger({
      level: config.LOG_LEVEL,
      secrets: secretsOf(config),
    }) as unknown as BrokerOptions["logger"];
  const options = { formatter: "short", colors: process.stdout.isTTY ?? false };
  return { type: "Console", options };
}

/** Moleculer's options for a node with this configuration. A fresh object each time: the broker changes it. */
export function brokerOptions(config: Config, over: Partial<BrokerOptions> = {}): BrokerOptions {
  return {
    namespace: config.NAMESPACE,
    nodeID: nodeName(config),
    transporter: transporterOf(config),
    logger: loggerOf(config),
    logLevel: config.LOG_LEVEL,
    cacher: (config.REDIS_URL === undefined
      ? new MemoryRecordCache()
      : new RedisRecordCache(config)) as unknown as BrokerOptions["cacher"],
    // A call that timed out may still be running: only the caller knows whether it may be repeated.
    retryPolicy: { enabled: false },
    requestTimeout: 30_000,
    // Calls go to a node that was killed until its silence is noticed.
    heartbeatInterval: 2,
    heartbeatTimeout: 7,
    validator: false,
    metrics: false,
    tracing: false,
    tracking: { enabled: true, shutdownTimeout: 10_000 },
    errorRegenerator: new ErrorRegenerator(),
    middlewares: [accessMiddleware],
    skipProcessEventRegistration: true,
    internalServices: true,
    // How often a service that waits for another looks; the default of a second would delay every start.
    dependencyInterval: 50,
    ...over,
  };
}

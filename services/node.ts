import { type BrokerOptions, ServiceBroker } from "moleculer";
import { brokerOptions, nodeName } from "../lib/broker-options.ts";
import type { Config } from "../lib/config.ts";
import { lockDataDir } from "../lib/data-lock.ts";
import { leaderCallMiddleware } from "../lib/leader-call.middleware.ts";
import { leaveMeshPlace, loopbackOptions } from "../lib/loopback-mesh.ts";
import { soleHostMiddleware } from "../lib/sole-host.middleware.ts";
import { openTelemetry } from "../lib/telemetry/node-telemetry.ts";
import { telemetryMiddleware } from "../lib/telemetry/telemetry.middleware.ts";
import { catalogue } from "./catalogue.ts";
import { contracts } from "./contracts.ts";
import { EdgeServer } from "./gateway/edge-server.ts";
import { gatewaySchema } from "./gateway/gateway.service.ts";
import { openHealthListener } from "./health/health-listener.ts";
import { progressListeners } from "./mcp/call-signals.ts";
import { schedulerConfig } from "./scheduler/config.ts";

export interface RunningNode {
  broker: ServiceBroker;
  /** Where this node's gateway listens; absent where it hosts none. */
  address?: { host: string; port: number; url: string };
  stop: () => Promise<void>;
}

export interface NodeOptions {
  /** Let local tools join over loopback (see lib/loopback-mesh.ts); with TRANSPORTER they use that. */
  joinable?: boolean;
  /** Broker options over those of the configuration. */
  broker?: Partial<BrokerOptions>;
}

/**
 * With MONGO_URL a node that hosts stores connects before anything else: an address that leads nowhere ends the start
 * in one sentence, not in the middle of it.
 * @returns what gives the connection back.
 */
async function holdDatabase(config: Config): Promise<(() => Promise<void>) | undefined> {
  const stores = config.SERVICES.some((role) => role !== "gateway" && role !== "compose");
  if (config.MONGO_URL === undefined || !stores) return undefined;
  const { acquireMongo } = await import("../lib/mongo/connection.ts");
  return (await acquireMongo(config.MONGO_URL)).release;
}

/**
 * Starts a node that hosts the roles of `config.SERVICES`; resolves when it serves.
 * @throws ConfigError with one sentence when the data directory or the address is taken, or MONGO_URL leads nowhere.
 */
export async function startNode(config: Config, options: NodeOptions = {}): Promise<RunningNode> {
  const unlock = lockDataDir(config);
  const ends: (() => Promise<unknown> | unknown)[] = [unlock];
  const stop = async () => {
    // Last begun, first ended. One that fails must not keep the others from ending.
    let failure: unknown;
    for (const end of ends.splice(0).reverse()) {
      try {
        await end();
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure) throw failure;
  };
  try {
    const database = await holdDatabase(config);
    if (database) ends.push(database);
    // The address before the stores: a taken port is known at once.
    const edge = config.SERVICES.includes("gateway") ? await EdgeServer.listen(config) : undefined;
    // Also when what comes next fails.
    if (edge) ends.push(() => edge.close());
    const loopback = options.joinable === true && config.TRANSPORTER === undefined;
    const nodeId = nodeName(config);
    const telemetry = await openTelemetry(config, nodeId);
    ends.push(() => telemetry.close());
    const chosen = brokerOptions(config, {
      ...(loopback ? loopbackOptions(config.MESH_KEY) : {}),
      ...options.broker,
    });
    if (config.TRANSPORTER !== undefined) chosen.middlewares?.push(soleHostMiddleware(config));
    const bindLogs = config.LOG_FORMAT === "json";
    if (telemetry.metrics || telemetry.tracing || bindLogs)
      chosen.middlewares?.push(telemetryMiddleware(telemetry, { bindLogs }));
    chosen.middlewares?.push(leaderCallMiddleware(contracts, schedulerConfig.failoverWaitMs));
    const broker = new ServiceBroker(chosen);
    telemetry.warnTo((text) => broker.logger.warn(text));
    const health = config.HEALTH_PORT > 0 ? await openHealthListener(config, broker) : undefined;
    if (health) ends.push(() => health.close());
    ends.push(() => broker.stop());
    // The edge ends before the broker: what is open there would keep its action, and so the broker, waiting.
    if (edge) ends.push(() => edge.close());
    // Published with the node: links are also made where no request says by which gateway it came.
    if (edge) broker.metadata["gatewayUrl"] = edge.url;
    for (const role of config.SERVICES) {
      if (role === "gateway") continue;
      for (const definition of catalogue[role]) broker.createService(definition.schema({ config }));
    }
    if (edge) broker.createService(gatewaySchema({ config }, edge));
    // From the start: another node must know of the listener before a tool there reports its progress.
    if (edge) progressListeners(broker);
    if (health) ends.push(() => health.stopping());
    await broker.start();
    if (loopback) ends.push(leaveMeshPlace(config.DATA_DIR, broker));
    return {
      broker,
      address: edge ? { host: config.HOST, port: edge.port, url: edge.url } : undefined,
      stop,
    };
  } catch (error) {
    await stop().catch(() => undefined);
    throw error;
  }
}

import { ServiceBroker } from "moleculer";
import { brokerOptions } from "../lib/broker-options.ts";
import type { Config } from "../lib/config.ts";
import { catalogue } from "./catalogue.ts";
import { gatewaySchema } from "./gateway/gateway.service.ts";

export interface RunningNode {
  broker: ServiceBroker;
  /** Where this node's gateway listens; absent where it hosts none. */
  address?: { host: string; port: number; url: string };
  stop: () => Promise<void>;
}

/** Starts a node that hosts the roles of `config.SERVICES`; resolves when it serves. */
export async function startNode(config: Config): Promise<RunningNode> {
  const broker = new ServiceBroker(brokerOptions(config));
  for (const role of config.SERVICES) {
    if (role === "gateway") continue;
    for (const definition of catalogue[role]) broker.createService(definition.schema({ config }));
  }
  const gateway = config.SERVICES.includes("gateway")
    ? broker.createService(gatewaySchema({ config }))
    : undefined;
  try {
    await broker.start();
  } catch (error) {
    await broker.stop().catch(() => undefined);
    throw error;
  }
  const bound = gateway?.server?.address() as { port: number } | null | undefined;
  const host = config.HOST.includes(":") ? `[${config.HOST}]` : config.HOST;
  return {
    broker,
    address: bound
      ? { host: config.HOST, port: bound.port, url: `http://${host}:${bound.port}` }
      : undefined,
    stop: () => broker.stop(),
  };
}

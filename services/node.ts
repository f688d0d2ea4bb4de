import { ServiceBroker } from "moleculer";
import { brokerOptions } from "../lib/broker-options.ts";
import type { Config } from "../lib/config.ts";
import { catalogue } from "./catalogue.ts";
import { EdgeServer } from "./gateway/edge-server.ts";
import { gatewaySchema } from "./gateway/gateway.service.ts";

export interface RunningNode {
  broker: ServiceBroker;
  /** Where this node's gateway listens; absent where it hosts none. */
  address?: { host: string; port: number; url: string };
  stop: () => Promise<void>;
}

/** Starts a node that hosts the roles of `config.SERVICES`; resolves when it serves. */
export async function startNode(config: Config): Promise<RunningNode> {
  // The address first: a taken port is known before a store has been opened.
  const edge = config.SERVICES.includes("gateway") ? await EdgeServer.listen(config) : undefined;
  const broker = new ServiceBroker(brokerOptions(config));
  // Published with the node, so that links can be made where no request says which gateway it came by.
  if (edge) broker.metadata["gatewayUrl"] = edge.url;
  const stop = async () => {
    // The edge first: what is open there would keep its action, and so the broker, waiting.
    await edge?.close();
    await broker.stop();
  };
  try {
    for (const role of config.SERVICES) {
      if (role === "gateway") continue;
      for (const definition of catalogue[role]) broker.createService(definition.schema({ config }));
    }
    if (edge) broker.createService(gatewaySchema({ config }, edge));
    await broker.start();
  } catch (error) {
    await stop().catch(() => undefined);
    throw error;
  }
  return {
    broker,
    address: edge ? { host: config.HOST, port: edge.port, url: edge.url } : undefined,
    stop,
  };
}

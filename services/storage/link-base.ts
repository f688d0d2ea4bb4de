import type { ServiceBroker } from "moleculer";
import { AppError } from "../../lib/errors.ts";
import type { Meta, ServiceHost } from "../../lib/service.ts";

type MeshNode = ReturnType<ServiceBroker["registry"]["getNodeList"]>[number];

const withoutEnd = (base: string) => base.replace(/\/+$/, "");
const isLoopback = (url: string) => /^(127\.|\[::1\]$|localhost$)/.test(new URL(url).hostname);

/** The address that a gateway publishes, as a node of the host `from` reaches it. */
function seenFrom(gateway: MeshNode, from: string | null | undefined): string | undefined {
  const url = gateway.metadata?.["gatewayUrl"];
  if (typeof url !== "string") return undefined;
  const address = gateway.ipList?.[0];
  if (!isLoopback(url) || gateway.hostname === from || !address) return url;
  // A gateway that listens on every network publishes the loopback address of its own machine.
  const there = new URL(url);
  there.hostname = address.includes(":") ? `[${address}]` : address;
  return there.origin;
}

const nodesOf = (broker: ServiceBroker): MeshNode[] =>
  broker.registry.getNodeList({ onlyAvailable: true, withServices: false });

/** Gateways of the mesh that are there now, this process's own one first. */
function gatewaysSeenFrom(broker: ServiceBroker, nodeID: string | undefined): string[] {
  const nodes = nodesOf(broker);
  const from = nodes.find(({ id }) => id === (nodeID ?? broker.nodeID))?.hostname;
  const own = nodes.filter(({ id }) => id === broker.nodeID);
  const others = nodes.filter(({ id }) => id !== broker.nodeID);
  // The own gateway spares the way through the mesh; among others a different one each time spreads the load.
  others.push(...others.splice(0, Math.floor(Math.random() * others.length)));
  return [...own, ...others].flatMap((node) => seenFrom(node, from) ?? []);
}

/**
 * Address under which clients reach a gateway, for links in answers: PUBLIC_URL; else the gateway that took
 * the request; else the one of this process (PORT may be 0, so that only its socket knows).
 */
export function linkBase(
  { config, broker }: Pick<ServiceHost, "config" | "broker">,
  meta: Pick<Meta, "baseUrl">,
): string {
  const own: unknown = broker.metadata["gatewayUrl"];
  const base = config.PUBLIC_URL ?? meta.baseUrl ?? (typeof own === "string" ? own : undefined);
  if (base) return withoutEnd(base);
  throw new AppError("NOT_CONFIGURED", {
    what: "PUBLIC_URL",
    fix: "set it to the address under which clients reach a gateway; this node hosts none",
  });
}

/**
 * Address under which the node `nodeID` reaches a gateway: INTERNAL_URL; else PUBLIC_URL; else a gateway that
 * the mesh knows at the moment.
 */
export function nodeLinkBase(
  { config, broker }: Pick<ServiceHost, "config" | "broker">,
  nodeID: string | undefined,
): string {
  const base = config.INTERNAL_URL ?? config.PUBLIC_URL ?? gatewaysSeenFrom(broker, nodeID)[0];
  if (base) return withoutEnd(base);
  // Gateways may all be starting: a reason to come again.
  throw new AppError("UNAVAILABLE", {
    reason: "the mesh knows no gateway that could hand out objects, and INTERNAL_URL is not set",
  });
}

const loopbackNames = ["127.0.0.1", "localhost", "[::1]"];
const everyName = (url: string): string[] => {
  const { protocol, port, origin } = new URL(url);
  return isLoopback(url)
    ? loopbackNames.map((name) => `${protocol}//${name}${port ? `:${port}` : ""}`)
    : [origin];
};

/** Origins of every address under which a gateway of this product may be named. */
export function gatewayOrigins({
  config,
  broker,
}: Pick<ServiceHost, "config" | "broker">): string[] {
  const published = nodesOf(broker).flatMap(({ metadata }) => {
    const url = metadata?.["gatewayUrl"];
    return typeof url === "string" ? [url] : [];
  });
  const seen = gatewaysSeenFrom(broker, undefined);
  const known = [config.PUBLIC_URL, config.INTERNAL_URL, ...published, ...seen];
  return [...new Set(known.flatMap((url) => (url ? everyName(url) : [])))];
}

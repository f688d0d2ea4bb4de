import type { Middleware, ServiceBroker } from "moleculer";
import { type Config, ConfigError } from "./config.ts";
import { claims, type Hosting, hostingOf } from "./hosting.ts";

/**
 * What keeps two nodes from hosting the same data twice. A store in DATA_DIR has one writer; over a transporter a second
 * node could offer the same services with other data, and callers would be sent to either.
 */

/** What is read of a node in Moleculer's registry. */
interface MeshNode {
  id: string;
  available: boolean;
  metadata: { hosting?: Hosting & { readyAt?: number } };
  services?: readonly { name: string }[];
}

/** The sentence for the operator when both nodes would host a role whose data have one writer. */
function conflictBetween(self: ServiceBroker, node: MeshNode, config: Config): string | undefined {
  const theirs = node.metadata?.hosting;
  if (!theirs || node.id === self.nodeID || !node.available) return undefined;
  const own = hostingOf(config);
  for (const { role, service, missing } of claims) {
    if (!own.roles.includes(role) || !theirs.roles.includes(role)) continue;
    if (!own.local.includes(role) && !theirs.local.includes(role)) continue;
    if (!(node.services ?? []).some(({ name }) => name === service)) continue;
    const needed = missing(config);
    return needed.length > 0
      ? `SERVICES: node ${node.id} of this mesh hosts ${role} already, and this node would keep data of its own in DATA_DIR. Set ${needed.join(" and ")} on both nodes, or leave ${role} out of SERVICES here`
      : `SERVICES: node ${node.id} of this mesh hosts ${role} with data in its own DATA_DIR, while this node uses ${role === "scheduler" ? "MONGO_URL" : "MONGO_URL and S3_ENDPOINT"}. Set the same there, or leave ${role} out of SERVICES here`;
  }
  return undefined;
}

/** So long the word of a node that became ready at the same time may be on its way. */
const NEWS_MS = 600;

/**
 * Stops the start of a node that would host a role a second time: before its services start when another node serves
 * already, and right after when both became ready at the same time; the one that was ready first stays. A second host
 * that appears later (a healed partition) cannot be undone here: it is reported as an error.
 */
export function soleHostMiddleware(config: Config): Middleware {
  let broker: ServiceBroker;
  const hosting: Hosting & { readyAt?: number } = hostingOf(config);
  const conflictWith = (isOurs: (node: MeshNode) => boolean): string | undefined => {
    const nodes = broker.registry.nodes.list({ onlyAvailable: true, withServices: true });
    for (const node of nodes as unknown as MeshNode[]) {
      const conflict = conflictBetween(broker, node, config);
      if (conflict && isOurs(node)) return conflict;
    }
    return undefined;
  };
  const refuse = (conflict: string | undefined) => {
    if (conflict) throw new ConfigError(conflict);
  };
  /** What the node found before any of its services started; a service that it adds later starts by this too. */
  let found: { conflict?: string } | undefined;
  return {
    name: "sole-host",
    created(created: ServiceBroker) {
      broker = created;
      broker.metadata["hosting"] = hosting;
      // After the services have started and before the mesh hears of them.
      broker.localBus.on("$broker.started", () => {
        hosting.readyAt = Date.now();
      });
    },
    serviceStarting() {
      if (!broker.transit || broker.started) return;
      found ??= { conflict: conflictWith(() => true) };
      refuse(found.conflict);
    },
    async started() {
      if (hosting.local.length > 0) {
        // Moleculer itself would tell of new services up to a second later.
        await (
          broker.registry.discoverer as { sendLocalNodeInfo(): Promise<void> }
        ).sendLocalNodeInfo();
        await new Promise((resolve) => setTimeout(resolve, NEWS_MS));
      }
      const mark = (readyAt: number | undefined, id: string) =>
        `${String(readyAt ?? 0).padStart(15, "0")} ${id}`;
      const own = mark(hosting.readyAt, broker.nodeID);
      refuse(conflictWith(({ metadata, id }) => mark(metadata.hosting?.readyAt, id) < own));
      broker.localBus.on("$node.connected", ({ node }: { node: MeshNode }) => {
        const conflict = conflictBetween(broker, node, config);
        if (conflict) broker.logger.error(conflict);
      });
    },
  } as unknown as Middleware;
}

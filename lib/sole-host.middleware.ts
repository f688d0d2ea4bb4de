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
  metadata: { hosting?: Hosting };
  services?: readonly { name: string }[];
}

/**
 * Whether this node must leave a role to another one, of nodes that are both in the mesh. Who serves already stays; of
 * two that start at the same time the one whose name sorts first goes on.
 * @returns the sentence for the operator; undefined when the role may be hosted.
 */
function conflictWith(node: MeshNode, self: ServiceBroker, config: Config): string | undefined {
  const theirs = node.metadata?.hosting;
  if (!theirs || node.id === self.nodeID || !node.available) return undefined;
  const own = hostingOf(config);
  for (const { role, service, missing } of claims) {
    if (!own.roles.includes(role) || !theirs.roles.includes(role)) continue;
    if (!own.local.includes(role) && !theirs.local.includes(role)) continue;
    const serves = (node.services ?? []).some(({ name }) => name === service);
    if (!serves && self.nodeID < node.id) continue;
    const needed = missing(config);
    return needed.length > 0
      ? `SERVICES: node ${node.id} of this mesh hosts ${role} already, and this node would keep data of its own in DATA_DIR. Set ${needed.join(" and ")} on both nodes, or leave ${role} out of SERVICES here`
      : `SERVICES: node ${node.id} of this mesh hosts ${role} with data in its own DATA_DIR, while this node uses ${role === "scheduler" ? "MONGO_URL" : "MONGO_URL and S3_ENDPOINT"}. Set the same there, or leave ${role} out of SERVICES here`;
  }
  return undefined;
}

/**
 * Stops the start of a node that would host a role a second time. A second host that appears later (a healed
 * partition) cannot be undone here: it is reported as an error.
 */
export function soleHostMiddleware(config: Config): Middleware {
  let broker: ServiceBroker;
  const nodes = () =>
    broker.registry.nodes.list({
      onlyAvailable: true,
      withServices: true,
    }) as unknown as MeshNode[];
  return {
    name: "sole-host",
    created(created: ServiceBroker) {
      broker = created;
      broker.metadata["hosting"] = hostingOf(config);
    },
    serviceStarting() {
      if (!broker.transit || broker.started) return;
      for (const node of nodes()) {
        const conflict = conflictWith(node, broker, config);
        if (conflict) throw new ConfigError(conflict);
      }
    },
    started() {
      broker.localBus.on("$node.connected", ({ node }: { node: MeshNode }) => {
        const conflict = conflictWith(node, broker, config);
        if (conflict) broker.logger.error(conflict);
      });
    },
  } as unknown as Middleware;
}

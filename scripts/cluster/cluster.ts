import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { freePort } from "../servers/server.ts";
import { type Servers, startServers } from "../servers/start-servers.ts";
import { ClusterProcess, type ProcessPlan } from "./cluster-process.ts";
import { Forwarder } from "./forwarder.ts";
import { HostNetwork, type NetworkHost } from "./host-network.ts";

/** How many processes of each role. */
export interface ClusterSize {
  gateway: number;
  platform: number;
  scheduler: number;
  compose: number;
}

export interface ClusterOptions {
  /** Where logs, data and the servers' files go. */
  dir: string;
  size: ClusterSize;
  /** Settings of all processes, over those that the cluster chooses. */
  env?: Record<string, string>;
  /** Compose nodes get a network namespace each, so that their line can be cut. */
  separateHosts?: boolean;
  /** What to say while it starts. */
  log?: (text: string) => void;
  /** Changes the plan of a process before it is started. */
  adapt?: (plan: ProcessPlan) => ProcessPlan;
}

const secretNames = ["ADMIN_PASSWORD", "MCP_TOKEN", "BRIDGE_TOKEN", "MESH_KEY", "STORAGE_SECRET"];
const BUCKET = "reelmesh";

/** The servers and several processes of each role on this machine, as a cluster would run them on many. */
export class Cluster {
  readonly servers: Servers;
  readonly processes: readonly ClusterProcess[];
  /** Line of each compose node that has a host of its own. */
  readonly hosts: ReadonlyMap<string, NetworkHost>;
  /** Addresses of the gateways. */
  readonly urls: readonly string[];
  /** Settings that all processes share, secrets included. */
  readonly env: Readonly<Record<string, string>>;
  readonly #ends: (() => Promise<unknown>)[];

  private constructor(
    parts: Pick<Cluster, "servers" | "processes" | "hosts" | "urls" | "env">,
    ends: (() => Promise<unknown>)[],
  ) {
    this.servers = parts.servers;
    this.processes = parts.processes;
    this.hosts = parts.hosts;
    this.urls = parts.urls;
    this.env = parts.env;
    this.#ends = ends;
  }

  /** Resolves when every process serves; what was begun is ended when one does not. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    const { dir, size, log = () => {} } = options;
    const ends: (() => Promise<unknown>)[] = [];
    await mkdir(dir, { recursive: true });
    try {
      log("servers: NATS, Redis, MongoDB wire protocol, S3");
      const servers = await startServers({ dir });
      ends.push(() => servers.stop());
      const network = options.separateHosts ? await HostNetwork.open() : undefined;
      if (network) ends.push(() => network.close());
      const addresses = network ? await reachable(servers.env, network.gateway, ends) : servers.env;
      const ports: number[] = [];
      for (let n = 0; n < size.gateway; n += 1) ports.push(await freePort());
      const env: Record<string, string> = {
        ...addresses,
        ...Object.fromEntries(
          secretNames.map((name) => [name, randomBytes(18).toString("base64url")]),
        ),
        OSS_BUCKET_NAME: BUCKET,
        // Sources lie on this machine in a cluster that is all on one.
        FETCH_ALLOW: network ? `127.0.0.0/8,${network.gateway}/24` : "127.0.0.0/8",
        ...options.env,
      };
      const hosts = new Map<string, NetworkHost>();
      const plans = planOf(size, env, ports);
      for (const plan of plans) {
        if (!network || plan.role !== "compose") continue;
        const host = await network.addHost();
        hosts.set(plan.name, host);
        plan.prefix = host.prefix;
      }
      const processes = plans.map((plan) => new ClusterProcess(options.adapt?.(plan) ?? plan, dir));
      ends.push(() => Promise.all(processes.map((process) => process.close())));
      // The platform first: it makes the first administrator, the bucket and the indexes.
      for (const role of ["platform", "scheduler", "compose", "gateway"]) {
        const those = processes.filter(({ plan }) => plan.role === role);
        log(`${role} x${those.length}`);
        await Promise.all(those.map((process) => process.start()));
      }
      const urls = ports.map((port) => `http://127.0.0.1:${port}`);
      return new Cluster({ servers, processes, hosts, urls, env }, ends);
    } catch (error) {
      for (const end of ends.reverse()) await end().catch(() => {});
      throw error;
    }
  }

  of(role: keyof ClusterSize): ClusterProcess[] {
    return this.processes.filter(({ plan }) => plan.role === role);
  }

  /** Ends the processes, then the servers. */
  async stop(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end();
  }
}

/** The servers' addresses as hosts in namespaces see them; credentials stay as they are. */
async function reachable(
  env: Readonly<Record<string, string>>,
  address: string,
  ends: (() => Promise<unknown>)[],
): Promise<Record<string, string>> {
  const seen: Record<string, string> = { ...env };
  for (const name of ["TRANSPORTER", "REDIS_URL", "MONGO_URL", "S3_ENDPOINT"]) {
    const url = seen[name];
    if (url === undefined) continue;
    const forwarder = await Forwarder.open(url, address);
    ends.push(() => forwarder.close());
    seen[name] = forwarder.url;
  }
  return seen;
}

function planOf(
  size: ClusterSize,
  env: Readonly<Record<string, string>>,
  ports: readonly number[],
): ProcessPlan[] {
  const plans: ProcessPlan[] = [];
  for (const role of ["platform", "scheduler", "compose", "gateway"] as const)
    for (let n = 1; n <= size[role]; n += 1)
      plans.push({
        name: `${role}-${n}`,
        role,
        env: {
          ...env,
          SERVICES: role,
          ...(role === "gateway" ? { HOST: "127.0.0.1", PORT: String(ports[n - 1]) } : {}),
          // What a GPU host does not need it must not have: neither database nor cache.
          ...(role === "compose" ? { MONGO_URL: "", REDIS_URL: "" } : {}),
        },
      });
  return plans;
}

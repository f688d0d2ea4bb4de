import { createHmac } from "node:crypto";
import type { Config } from "../../lib/config.ts";
import { hostRefusal, readFetchAllow } from "../../lib/net/address.policy.ts";
import type { ServiceHost } from "../../lib/service.ts";
import { BridgeHttp } from "./bridge-http.ts";
import { BridgeLink, type LinkPorts } from "./bridge-link.ts";
import { storagePorts } from "./bridge-orders.ts";
import type { Leader, LeaderPorts } from "./leader.ts";
import { countFencing } from "./scheduler.service.ts";

/** Where a bridge outside the mesh is reached, and with which token. */
export interface BridgeAddress {
  url: string;
  token: string;
}

type NodePortsOfLeader = Pick<LeaderPorts, "begin" | "halt"> & {
  probe: NonNullable<LeaderPorts["probe"]>;
};

/** The bridge that the settings name, if any. */
export const configuredBridges = ({
  BRIDGE_URL: url,
  BRIDGE_TOKEN: token,
}: Config): BridgeAddress[] => (url === undefined ? [] : [{ url, token }]);

const prefix = "bridge:";

/** Name of a bridge as a node: two addresses of one bridge would be two nodes. */
function bridgeNode(url: string): string {
  const { host, pathname } = new URL(url);
  return prefix + host + pathname.replace(/\/+$/, "");
}

/** Tokens and tasks would go in the clear; inside a private network (a name without a dot) that is the operator's choice. */
function isExposed(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  const isPlain = protocol === "http:" && /[.:]/.test(hostname);
  return isPlain && hostRefusal(hostname, readFetchAllow([])) === undefined;
}

/** The same for every scheduler of a cluster, and telling nothing. */
const installationOf = ({ STORAGE_SECRET }: Config): string =>
  createHmac("sha256", STORAGE_SECRET).update("reelmesh bridge").digest("hex").slice(0, 32);

/** The leader as bridges hear it; fencing counts there as with any node. */
function counted(leader: Leader, host: ServiceHost): LinkPorts["leader"] {
  const count = countFencing(host);
  return {
    heartbeat: (...given) => leader.heartbeat(...given).then(count),
    complete: (...given) => leader.complete(...given).then(count),
    fail: (...given) => leader.fail(...given).then(count),
    handBack: (...given) => leader.handBack(...given),
    get: (id) => leader.get(id),
    addLog: (...given) => leader.addLog(...given),
  };
}

interface Open {
  link: BridgeLink;
  http: BridgeHttp;
}

/**
 * The bridges outside the mesh, as compose nodes of the leader. `set` may be called again whenever the list changes;
 * a bridge that is no longer listed is asked no more, and its leases run out.
 */
export class BridgeLinks {
  readonly #host: ServiceHost;
  readonly #open = new Map<string, Open>();
  #leader: Leader | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(host: ServiceHost) {
    this.#host = host;
  }

  /** The ports of the leader with calls to bridges sent to their links, all others as before. */
  route(mesh: NodePortsOfLeader): NodePortsOfLeader {
    return {
      begin: (node, order) => this.#linkOf(node)?.begin(order) ?? mesh.begin(node, order),
      halt: (node, ref) => this.#linkOf(node)?.halt(ref) ?? mesh.halt(node, ref),
      probe: (node) => this.#linkOf(node)?.probe() ?? mesh.probe(node),
    };
  }

  /** Speaks for the bridges to this leader from now on. */
  lead(leader: Leader, bridges: readonly BridgeAddress[]): void {
    this.stop();
    this.#leader = leader;
    this.set(bridges);
  }

  set(bridges: readonly BridgeAddress[]): void {
    const leader = this.#leader;
    if (!leader) return;
    const wanted = new Map(bridges.map((bridge) => [bridgeNode(bridge.url), bridge]));
    for (const name of [...this.#open.keys()]) if (!wanted.has(name)) this.#drop(name);
    for (const [name, bridge] of wanted)
      if (!this.#open.has(name)) this.#open.set(name, this.#join(name, bridge, leader));
    this.#arm();
  }

  /** Asks nothing more; what the bridges do is for the next leader. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#leader = undefined;
    for (const name of [...this.#open.keys()]) this.#drop(name);
  }

  #linkOf(node: string): BridgeLink | undefined {
    const open = this.#open.get(node);
    if (!open && node.startsWith(prefix)) throw new Error(`${node} is not listed`);
    return open?.link;
  }

  #join(name: string, { url, token }: BridgeAddress, leader: Leader): Open {
    if (isExposed(url))
      this.#host.logger.warn(
        `${name}: http:// lets everybody on the way read the token; use https:// beyond a private network`,
      );
    const installation = installationOf(this.#host.config);
    const http = new BridgeHttp(url, { token, installation });
    const link = new BridgeLink(name, {
      ...storagePorts(this.#host),
      calls: http,
      leader: counted(leader, this.#host),
      now: () => performance.now(),
      log: (level, text) => this.#host.logger[level](text),
      rearm: () => this.#arm(),
    });
    return { link, http };
  }

  #drop(name: string): void {
    const open = this.#open.get(name);
    this.#open.delete(name);
    open?.link.close();
    void open?.http.close();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    let at = Number.POSITIVE_INFINITY;
    for (const { link } of this.#open.values()) at = Math.min(at, link.nextWakeAt);
    if (at === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(
      () => {
        for (const { link } of this.#open.values()) link.tick(performance.now());
        this.#arm();
      },
      Math.max(0, at - performance.now()),
    );
  }
}

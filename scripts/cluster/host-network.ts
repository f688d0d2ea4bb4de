import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);
const ip = (...args: string[]) => run("ip", args);

/** Private range of a cluster's own hosts; a number of the process keeps two clusters apart. */
const rangeOf = (id: number) => `10.213.${id % 250}`;

/** One host of a cluster: a network namespace with one line to the others, which can be cut and healed. */
export interface NetworkHost {
  name: string;
  address: string;
  /** Put before a command to run it on this host. */
  prefix: readonly string[];
  cut(): Promise<void>;
  heal(): Promise<void>;
}

/** Whether this process may make network namespaces: Linux, root and the `ip` command. */
export async function canMakeHosts(): Promise<boolean> {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return false;
  const probe = `rm${process.pid}probe`;
  try {
    await ip("netns", "add", probe);
    await ip("netns", "delete", probe);
    return true;
  } catch {
    return false;
  }
}

/** A switch with an address for the machine itself, and hosts in namespaces around it. `close` removes all of them. */
export class HostNetwork {
  readonly #id: string;
  readonly #bridge: string;
  readonly #range: string;
  readonly #names: string[] = [];

  private constructor(id: number) {
    this.#id = `rm${id}`;
    this.#bridge = `${this.#id}br`;
    this.#range = rangeOf(id);
  }

  /** @param id tells this network's devices and addresses from those of another one on the same machine. */
  static async open(id = process.pid % 10_000): Promise<HostNetwork> {
    const network = new HostNetwork(id);
    await ip("link", "add", network.#bridge, "type", "bridge");
    try {
      await ip("addr", "add", `${network.gateway}/24`, "dev", network.#bridge);
      await ip("link", "set", network.#bridge, "up");
    } catch (error) {
      await network.close();
      throw error;
    }
    return network;
  }

  /** Address under which every host reaches this machine. */
  get gateway(): string {
    return `${this.#range}.1`;
  }

  async addHost(): Promise<NetworkHost> {
    const number = this.#names.length + 2;
    const name = `${this.#id}n${number}`;
    const [outer, inner] = [`${this.#id}v${number}`, `${this.#id}w${number}`];
    const address = `${this.#range}.${number}`;
    await ip("netns", "add", name);
    this.#names.push(name);
    await ip("link", "add", outer, "type", "veth", "peer", "name", inner);
    await ip("link", "set", outer, "master", this.#bridge);
    await ip("link", "set", inner, "netns", name);
    await ip("-n", name, "addr", "add", `${address}/24`, "dev", inner);
    await ip("-n", name, "link", "set", inner, "up");
    await ip("-n", name, "link", "set", "lo", "up");
    await ip("link", "set", outer, "up");
    return {
      name,
      address,
      prefix: ["ip", "netns", "exec", name],
      cut: async () => void (await ip("link", "set", outer, "down")),
      heal: async () => void (await ip("link", "set", outer, "up")),
    };
  }

  async close(): Promise<void> {
    for (const name of this.#names.splice(0)) await ip("netns", "delete", name).catch(() => {});
    await ip("link", "delete", this.#bridge).catch(() => {});
  }
}

import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Server } from "../../scripts/servers/server.ts";
import { type Servers, startServers } from "../../scripts/servers/start-servers.ts";

/** A redis-server of the test's own, which may be killed, held still and started again, empty, on the same port. */
export class RedisServer {
  readonly port: number;
  readonly url: string;
  readonly #servers: Servers;
  readonly #redis: Server;

  private constructor(servers: Servers) {
    this.#servers = servers;
    this.#redis = servers.get("redis");
    this.url = this.#redis.url;
    this.port = Number(new URL(this.url).port);
  }

  /** On a free port, with nothing in it; `down` leaves it off. */
  static async start({ down = false } = {}): Promise<RedisServer> {
    const server = new RedisServer(await startServers({ only: ["redis"], own: true }));
    if (down) await server.kill();
    return server;
  }

  /** Starts it empty, as one that keeps nothing on disk. */
  async restart(): Promise<void> {
    await this.kill();
    const data = join(this.#servers.dir, "redis", "data");
    await rm(join(data, "appendonlydir"), { recursive: true, force: true });
    await this.#redis.start();
  }

  kill(): Promise<void> {
    return this.#redis.kill();
  }

  /** Holds it still: connections stay, nothing is answered. */
  freeze(): Promise<void> {
    return this.#redis.pause();
  }

  thaw(): Promise<void> {
    return this.#redis.resume();
  }

  stop(): Promise<void> {
    return this.#servers.stop();
  }
}

import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** Makes a server that listens on loopback reachable under another address of this machine. */
export class Forwarder {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  private constructor(url: string, server: Server, sockets: Set<Socket>) {
    this.url = url;
    this.#server = server;
    this.#sockets = sockets;
  }

  /** `url`: where the server is; the answer's `url` is the same with `address` as its host, port included. */
  static async open(url: string, address: string): Promise<Forwarder> {
    const target = new URL(url);
    const sockets = new Set<Socket>();
    const track = (socket: Socket) => {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      return socket;
    };
    const server = createServer((near) => {
      track(near);
      const far = track(connect(Number(target.port), target.hostname));
      near.pipe(far).pipe(near);
      near.on("error", () => far.destroy());
      far.on("error", () => near.destroy());
      near.on("close", () => far.destroy());
      far.on("close", () => near.destroy());
    });
    server.listen(Number(target.port), address);
    await once(server, "listening");
    const seen = new URL(url);
    seen.hostname = address;
    return new Forwarder(seen.href, server, sockets);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }
}

import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** A line to a server that can be cut: wholly, or so that questions arrive and their answers do not. */
export class CutLine {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #answersLost = false;
  #cut = false;

  private constructor(url: string, server: Server) {
    this.url = url;
    this.#server = server;
  }

  /** @param url of the server; that of the answer leads there by way of this line. */
  static async open(url: string): Promise<CutLine> {
    const target = new URL(url);
    const [host, port] = [target.hostname, Number(target.port)];
    const server = createServer((near) => line.#join(near, connect(port, host)));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    target.hostname = "127.0.0.1";
    target.port = String((server.address() as { port: number }).port);
    const line = new CutLine(target.href, server);
    return line;
  }

  /** The server carries out what it is asked; whoever asks finds the line broken instead of an answer. */
  loseAnswers(): void {
    this.#answersLost = true;
  }

  /** Nothing gets through. */
  cut(): void {
    this.#cut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#answersLost = false;
    this.#cut = false;
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(near: Socket, far: Socket): void {
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
      socket.once("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    if (this.#cut) near.destroy();
    near.pipe(far);
    far.on("data", (answer) => {
      if (this.#answersLost) near.destroy();
      else near.write(answer);
    });
  }
}

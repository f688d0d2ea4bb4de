import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** What becomes of a request: "refused" ones never arrive, of "deaf" ones the answer is lost. */
export type Fate = "whole" | "refused" | "deaf";

/** A TCP line to a server which a test can cut, as if the server were killed, freeze, as if it hung, or spoil. */
export interface CuttableLine {
  port: number;
  /** That of the server, by way of this line. */
  url: string;
  /** Called with the number of each request, from 1. A request is what a client sends before it hears an answer. */
  fate: (request: number) => Fate;
  requests(): number;
  /** Ends what is open and refuses what comes. */
  cut(): Promise<void>;
  /** Nothing passes any more, in neither direction; new connections are taken and get no answer. */
  freeze(): void;
  /** All is as at the beginning; what froze is gone. */
  mend(): Promise<void>;
}

export async function cuttableLine({ href }: URL): Promise<CuttableLine> {
  const target = new URL(href);
  const sockets = new Set<Socket>();
  let frozen = false;
  let count = 0;
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket)).on("error", () => socket.destroy());
    return socket;
  };
  const server = createServer((near) => {
    track(near);
    if (frozen) return;
    const far = track(connect(Number(target.port), target.hostname));
    let isAsking = false;
    let fate: Fate = "whole";
    pass(near, far, () => {
      if (!isAsking) fate = line.fate(++count);
      isAsking = true;
      return fate !== "refused";
    });
    pass(far, near, () => {
      isAsking = false;
      return fate !== "deaf";
    });
  });
  /** Hands on what comes as long as it may. No pipe: that would still hand on the chunk which ends it. */
  const pass = (from: Socket, to: Socket, may: () => boolean) => {
    from.on("close", () => to.destroy()).on("end", () => to.end());
    from.on("data", (chunk) => {
      if (!may()) return void from.destroy();
      if (to.write(chunk)) return;
      from.pause();
      to.once("drain", () => frozen || from.resume());
    });
  };
  const listen = async (port: number) => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  const hangUp = () => {
    for (const socket of sockets) socket.destroy();
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const url = new URL(target);
  url.host = `127.0.0.1:${port}`;
  const line: CuttableLine = {
    port,
    url: url.href,
    fate: () => "whole",
    requests: () => count,
    async cut() {
      if (!server.listening) return hangUp();
      const closed = once(server, "close");
      server.close();
      hangUp();
      await closed;
    },
    freeze() {
      frozen = true;
      for (const socket of sockets) socket.pause();
    },
    async mend() {
      if (frozen) hangUp();
      frozen = false;
      line.fate = () => "whole";
      if (!server.listening) await listen(port);
    },
  };
  return line;
}

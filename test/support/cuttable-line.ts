import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TCP line to a server which a test can cut, as if the server were killed, or freeze, as if it hung. */
export interface CuttableLine {
  port: number;
  /** Ends what is open and refuses what comes. */
  cut(): Promise<void>;
  /** Nothing passes any more, in neither direction; new connections are taken and get no answer. */
  freeze(): void;
  /** All is as at the beginning; what froze is gone. */
  mend(): Promise<void>;
}

export async function cuttableLine({ hostname, port: targetPort }: URL): Promise<CuttableLine> {
  const sockets = new Set<Socket>();
  let frozen = false;
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket)).on("error", () => socket.destroy());
    return socket;
  };
  const server = createServer((near) => {
    track(near);
    if (frozen) return;
    const far = track(connect(Number(targetPort), hostname));
    near.pipe(far).pipe(near);
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
  });
  const listen = async (port: number) => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  const hangUp = () => {
    for (const socket of sockets) socket.destroy();
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    port,
    async cut() {
      if (!server.listening) return hangUp();
      const closed = once(server, "close");
      server.close();
      hangUp();
      await closed;
    },
    freeze() {
      frozen = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    async mend() {
      if (frozen) hangUp();
      frozen = false;
      if (!server.listening) await listen(port);
    },
  };
}

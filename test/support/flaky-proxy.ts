import { connect, createServer, type Server, type Socket } from "node:net";

export interface FlakyProxy {
  port: number;
  /** Called with the number of each request, from 1: what becomes of it. */
  fate: (request: number) => "whole" | "refused" | "deaf";
  requests(): number;
  stop(): Promise<void>;
}

/**
 * A TCP proxy on loopback that spoils requests: "refused" ones never arrive, of "deaf" ones the answer is lost. A
 * request is what the client sends before it hears an answer.
 */
export async function startFlakyProxy(target: number): Promise<FlakyProxy> {
  const sockets = new Set<Socket>();
  let count = 0;
  const proxy: FlakyProxy = {
    port: 0,
    fate: () => "whole",
    requests: () => count,
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const server: Server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.once("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    let isAsking = false;
    let fate: ReturnType<FlakyProxy["fate"]> = "whole";
    client.on("data", (chunk) => {
      if (!isAsking) {
        isAsking = true;
        count += 1;
        fate = proxy.fate(count);
      }
      if (fate === "refused") client.destroy();
      else upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      isAsking = false;
      if (fate === "deaf") client.destroy();
      else client.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  proxy.port = (server.address() as { port: number }).port;
  return proxy;
}

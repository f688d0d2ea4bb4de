// Closed-loop HTTP load from a process of its own: each connection sends the next request when it has the answer.
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface LoadOrder {
  port: number;
  /** One request, head and body, byte by byte as it is sent. */
  request: string;
  connections: number;
  warmMs: number;
  forMs: number;
}
export interface LoadResult {
  requests: number;
  seconds: number;
  p50Ms: number;
  p99Ms: number;
  /** Answers that were not 200, by status. */
  odd: Record<string, number>;
  /** Body of one answer, so that contestants can be compared. */
  sample: string;
}

class Loop {
  readonly latencies: number[] = [];
  readonly odd: Record<string, number> = {};
  sample = "";
  counting = false;
  stopped = false;
  readonly #order: LoadOrder;
  readonly #sockets: Socket[] = [];

  constructor(order: LoadOrder) {
    this.#order = order;
  }

  async open(): Promise<void> {
    for (let at = 0; at < this.#order.connections; at++) {
      const socket = connect(this.#order.port, "127.0.0.1");
      socket.setNoDelay(true);
      await once(socket, "connect");
      this.#sockets.push(socket);
      this.#drive(socket);
    }
  }

  close(): void {
    this.stopped = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  #drive(socket: Socket): void {
    let buffered = "";
    let sentAt = performance.now();
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      buffered += chunk;
      const headEnd = buffered.indexOf("\r\n\r\n");
      if (headEnd < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(buffered.slice(0, headEnd))?.[1]);
      if (!Number.isFinite(length)) throw new Error(`no Content-Length: ${buffered.slice(0, 200)}`);
      if (buffered.length < headEnd + 4 + length) return;
      const now = performance.now();
      const status = buffered.slice(9, 12);
      if (this.counting) {
        if (status === "200") this.latencies.push(now - sentAt);
        else this.odd[status] = (this.odd[status] ?? 0) + 1;
      }
      this.sample = Buffer.from(buffered.slice(headEnd + 4), "latin1").toString();
      buffered = "";
      if (this.stopped) return;
      sentAt = now;
      socket.write(this.#order.request);
    });
    socket.write(this.#order.request);
  }
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

process.on("message", async (order: LoadOrder) => {
  const loop = new Loop(order);
  await loop.open();
  await wait(order.warmMs);
  process.send?.("warm");
  loop.counting = true;
  const from = performance.now();
  await wait(order.forMs);
  const seconds = (performance.now() - from) / 1000;
  loop.close();
  const sorted = loop.latencies.sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * sorted.length)] ?? Number.NaN;
  const result: LoadResult = {
    requests: sorted.length,
    seconds,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    odd: loop.odd,
    sample: loop.sample,
  };
  process.send?.(result);
});

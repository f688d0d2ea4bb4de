import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Config, ConfigError } from "../../lib/config.ts";
import { gatewayLimits } from "./config.ts";

export type Handler = (req: IncomingMessage, res: ServerResponse) => void;
/** Hears that an answer has ended or its client has gone, after so many milliseconds. */
export type EndListener = (req: IncomingMessage, res: ServerResponse, ms: number) => void;

const sentences: Record<string, (config: Config) => string> = {
  EADDRINUSE: ({ HOST, PORT }) =>
    `PORT: ${PORT} on ${HOST} is in use by another program. Stop that program or set PORT to another port (0 picks a free one)`,
  EACCES: ({ PORT }) =>
    `PORT: no permission to listen on ${PORT}. Set PORT to 1024 or above, or to 0 for a free one`,
  EADDRNOTAVAIL: ({ HOST }) =>
    `HOST: ${HOST} is no address of this machine. Use 127.0.0.1 for this machine only, 0.0.0.0 for all its networks`,
  ENOTFOUND: ({ HOST }) => `HOST: ${HOST} cannot be resolved. Use an IP address of this machine`,
};

/**
 * The listening socket with its limits. It is bound before anything else of the product starts, so that a
 * taken port is known at once; until somebody serves, it answers 503.
 */
export class EdgeServer {
  readonly #server: Server;
  readonly #stopping = new AbortController();
  readonly #config: Config;
  #handler: Handler | undefined;
  #ended: EndListener | undefined;
  /** Requests that have no complete answer yet. */
  #open = 0;
  #closed: Promise<void> | undefined;
  #url: string | undefined;

  private constructor(config: Config) {
    this.#config = config;
    this.#server = createServer(
      {
        headersTimeout: gatewayLimits.headersMs,
        requestTimeout: gatewayLimits.requestMs,
        keepAliveTimeout: gatewayLimits.keepAliveMs,
        connectionsCheckingInterval: gatewayLimits.checkMs,
      },
      (req, res) => this.#dispatch(req, res),
    );
  }

  /** @throws ConfigError with one sentence when the address cannot be had. */
  static async listen(config: Config): Promise<EdgeServer> {
    const edge = new EdgeServer(config);
    edge.#server.listen(config.PORT, config.HOST);
    try {
      await once(edge.#server, "listening");
    } catch (error) {
      const sentence = sentences[(error as NodeJS.ErrnoException).code ?? ""];
      throw new ConfigError(sentence?.(config) ?? `HOST, PORT: ${(error as Error).message}`);
    }
    return edge;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Address under which this machine reaches the gateway. */
  get url(): string {
    // Asked for with each request, and each look at the socket's address is a call to the system.
    this.#url ??= this.#findUrl();
    return this.#url;
  }

  #findUrl(): string {
    const { HOST } = this.#config;
    const wildcard: Record<string, string> = { "0.0.0.0": "127.0.0.1", "::": "[::1]" };
    return `http://${wildcard[HOST] ?? (HOST.includes(":") ? `[${HOST}]` : HOST)}:${this.port}`;
  }

  /** Aborted when the gateway stops: open streams end then. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  serve(handler: Handler, ended?: EndListener): void {
    this.#handler = handler;
    this.#ended = ended;
  }

  #dispatch(req: IncomingMessage, res: ServerResponse): void {
    this.#open += 1;
    // Each layer of a streamed answer listens for its close: a fixed number, though above Node's alarm of 10.
    res.setMaxListeners(24);
    const startedAt = performance.now();
    res.once("close", () => {
      this.#ended?.(req, res, performance.now() - startedAt);
      this.#open -= 1;
      if (this.#open === 0 && this.#stopping.signal.aborted) this.#server.closeAllConnections();
    });
    if (this.#handler && !this.#stopping.signal.aborted) {
      this.#handler(req, res);
      return;
    }
    res.writeHead(503, { "Content-Type": "text/plain; charset=utf-8", "Retry-After": "1" });
    res.end("starting or stopping\n");
  }

  /**
   * Takes no new connection, ends streams, gives answers under way `drainMs`, then closes what is left. An
   * open stream would keep the process alive for ever otherwise. Safe to repeat.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#stopping.abort();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const cut = setTimeout(() => this.#server.closeAllConnections(), gatewayLimits.drainMs);
    // Not closeIdleConnections(): it spares connections on which nothing was ever asked.
    if (this.#open === 0) this.#server.closeAllConnections();
    await closed;
    clearTimeout(cut);
  }
}

import { Transporters } from "moleculer";
import type { NatsOptions } from "./nats-options.ts";

/** What has been sent before a stop gets this long to leave the machine. */
const FLUSH_MS = 2_000;

interface Client {
  flush(): Promise<void>;
  close(): Promise<void>;
}
type Base = new (options: NatsOptions) => { client: Client | null; disconnect(): Promise<unknown> };

const MoleculerNats = (Transporters as unknown as { NATS: Base }).NATS;

/**
 * Moleculer's transporter for NATS, with an end that comes also while the server is away. Moleculer's own closes the
 * line once all was sent: without a server that never happens, and the client goes on looking for it and keeps the
 * process alive; from one that stands still, the stop would wait for the answer.
 */
export class NatsTransporter extends MoleculerNats {
  override async disconnect(): Promise<void> {
    const { client } = this;
    if (!client) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, FLUSH_MS);
    });
    await Promise.race([client.flush().catch(() => undefined), late]);
    clearTimeout(timer);
    await client.close();
    this.client = null;
  }
}

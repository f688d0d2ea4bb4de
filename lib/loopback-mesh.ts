import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { type BrokerOptions, Serializers, type ServiceBroker, Transporters } from "moleculer";
import { z } from "zod";

/**
 * The embedded product's way in for local tools (the REPL): Moleculer's TCP transporter on loopback. Its port
 * lies in DATA_DIR, and every packet is sealed with a key that lies there too, so that only those who may
 * read DATA_DIR can speak: other users of the machine find a port that ignores them.
 */

interface Reader {
  server: Server;
  opts: { port?: number };
  connected: boolean;
  onTcpClientConnected(socket: Socket): void;
  listen(): Promise<void>;
}
interface Writer {
  on(event: "error", listener: (error: Error, node: string) => void): void;
  on(event: "end", listener: (node: string) => void): void;
}

const require = createRequire(import.meta.url);
// Not exported by name, and the transporter would listen on every network otherwise.
const internals = join(dirname(require.resolve("moleculer")), "src/transporters/tcp");
const TcpReader = require(join(internals, "tcp-reader.js")) as new (
  transporter: unknown,
  opts: unknown,
) => Reader;
const TcpWriter = require(join(internals, "tcp-writer.js")) as new (
  transporter: unknown,
  opts: unknown,
) => Writer;

class LoopbackReader extends TcpReader {
  override async listen(): Promise<void> {
    this.server = createServer((socket) => this.onTcpClientConnected(socket));
    this.server.listen({ host: "127.0.0.1", port: 0 });
    await once(this.server, "listening");
    this.opts.port = (this.server.address() as AddressInfo).port;
    this.connected = true;
  }
}

class LoopbackTransporter extends Transporters.TCP {
  override startTcpServer(): Promise<void> {
    const self = this as unknown as { reader: Reader; writer: Writer; opts: unknown };
    self.writer = new TcpWriter(this, self.opts);
    self.reader = new LoopbackReader(this, self.opts);
    self.writer.on("error", (_error, node) => this.nodes.disconnected(node, false));
    self.writer.on("end", (node) => this.nodes.disconnected(node, false));
    return self.reader.listen();
  }
  override getNodeAddress(): string {
    return "127.0.0.1";
  }
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** JSON, sealed with AES-256-GCM: what was not written with the key cannot be read as a packet. */
class SealedSerializer extends Serializers.Base {
  readonly #key: Buffer;
  constructor(secret: string) {
    super();
    this.#key = createHash("sha256").update(`mesh\n${secret}`).digest();
  }
  override serialize(packet: object): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce);
    const body = [cipher.update(JSON.stringify(packet)), cipher.final()];
    return Buffer.concat([nonce, cipher.getAuthTag(), ...body]);
  }
  override deserialize(sealed: Buffer): object {
    const decipher = createDecipheriv("aes-256-gcm", this.#key, sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    const body = sealed.subarray(NONCE_BYTES + TAG_BYTES);
    return JSON.parse(Buffer.concat([decipher.update(body), decipher.final()]).toString());
  }
}

const Place = z.object({ node: z.string(), port: z.int(), pid: z.int() });
export type MeshPlace = z.infer<typeof Place>;

const placeFile = (dataDir: string) => join(dataDir, "mesh.json");

/** Where a running product of this directory can be joined; undefined when none has left its place. */
export function readMeshPlace(dataDir: string): MeshPlace | undefined {
  try {
    return Place.parse(JSON.parse(readFileSync(placeFile(dataDir), "utf8")));
  } catch {
    return undefined;
  }
}

/** Leaves the place of this node for those who want to join; the answer takes it away again. */
export function leaveMeshPlace(dataDir: string, broker: ServiceBroker): () => void {
  const { port } = (broker.transit!.tx as unknown as { opts: { port: number } }).opts;
  const place: MeshPlace = { node: broker.nodeID, port, pid: process.pid };
  writeFileSync(placeFile(dataDir), `${JSON.stringify(place)}\n`, { mode: 0o600 });
  return () => rmSync(placeFile(dataDir), { force: true });
}

/** Broker options of a node of the loopback mesh; `join` names the running product. */
export function loopbackOptions(
  secret: string,
  join?: MeshPlace,
): Pick<BrokerOptions, "transporter" | "serializer"> {
  return {
    transporter: new LoopbackTransporter({
      udpDiscovery: false,
      ...(join ? { urls: `tcp://127.0.0.1:${join.port}/${join.node}` } : {}),
    }) as unknown as BrokerOptions["transporter"],
    serializer: new SealedSerializer(secret) as unknown as BrokerOptions["serializer"],
  };
}

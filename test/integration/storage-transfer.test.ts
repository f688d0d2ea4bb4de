import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { AppError } from "../../lib/errors.ts";
import { systemCall, type TypedCall } from "../../lib/service.ts";
import { ExecutionLimits } from "../../services/compose/config.ts";
import {
  directAccess,
  type LinkSource,
  linkAccess,
  meshLinks,
} from "../../services/compose/object-access.ts";
import { ObjectTransfer } from "../../services/compose/object-transfer.ts";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

let product: Product;
let call: TypedCall;
let dir: string;
const bucket = "reelmesh";
const limits = ExecutionLimits.parse({ transferPauseMsMin: 5, storageWaitMs: 10_000 });

beforeAll(async () => {
  product = await startProduct();
  call = systemCall(product.broker);
  dir = await mkdtemp(join(tmpdir(), "reelmesh-transfer-"));
});
afterAll(async () => {
  await product.stop();
  await rm(dir, { recursive: true, force: true });
});

/** A line to the gateway that a test cuts, stops or bends. Each connection asks what becomes of it. */
class Line {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  /** Bytes of the answer after which the n-th connection is cut; undefined: not at all. */
  cutDownAfter: (connection: number) => number | undefined = () => undefined;
  cutUpAfter: (connection: number) => number | undefined = () => undefined;
  bend: (chunk: Buffer, connection: number) => Buffer = (chunk) => chunk;
  connections = 0;
  /** Bytes that have come from the gateway. */
  down = 0;
  up = 0;

  constructor(target: URL) {
    this.#server = createServer((client) => {
      this.connections += 1;
      const [downMax, upMax] = [
        this.cutDownAfter(this.connections),
        this.cutUpAfter(this.connections),
      ];
      const number = this.connections;
      const far = connect(Number(target.port), target.hostname);
      let [down, up] = [0, 0];
      for (const socket of [client, far]) {
        this.#open.add(socket);
        socket.on("error", () => undefined).on("close", () => this.#open.delete(socket));
      }
      const cut = () => {
        client.destroy();
        far.destroy();
      };
      client.on("close", cut);
      far.on("close", () => client.end());
      far.on("data", (chunk) => {
        down += chunk.length;
        this.down += chunk.length;
        if (downMax !== undefined && down > downMax) return cut();
        client.write(chunk);
      });
      client.on("data", (chunk) => {
        up += chunk.length;
        this.up += chunk.length;
        if (upMax !== undefined && up > upMax) return cut();
        far.write(this.bend(chunk, number));
      });
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

let line: Line;
let lineHost: string;
let abort: AbortController;
let linksAsked: number;
beforeEach(async () => {
  line = new Line(new URL(product.url));
  lineHost = await line.listen();
  abort = new AbortController();
  linksAsked = 0;
});
afterEach(() => line.close());

/** The product's links, over the line. */
function links(over: Partial<LinkSource> = {}): LinkSource {
  const real = meshLinks({ call }, limits);
  const bent = (url: string) => url.replace(new URL(url).host, lineHost);
  return {
    async readLink(object) {
      linksAsked += 1;
      return bent(await real.readLink(object));
    },
    async uploadLink(object) {
      linksAsked += 1;
      return bent(await real.uploadLink(object));
    },
    ...over,
  };
}
const transfer = (source = links(), over: Partial<ExecutionLimits> = {}) => {
  const narrowed = { ...limits, ...over };
  const objects = () => linkAccess(source, narrowed);
  const addresses = () => call("storage.addresses", {});
  return new ObjectTransfer({ objects, addresses }, narrowed, abort.signal);
};
const put = (key: string, data: Buffer) =>
  call("storage.put", { bucket, key, contentType: "video/mp4" }, { stream: Readable.from([data]) });
const isThere = (key: string) =>
  call("storage.stat", { bucket, key }).then(
    () => true,
    () => false,
  );
const megabyte = 1024 ** 2;

describe("an object on its way to a node", () => {
  test("goes on from where the line broke, each time with a new link", async () => {
    const data = randomBytes(6 * megabyte);
    await put("in/broken", data);
    line.cutDownAfter = (connection) => (connection <= 3 ? 1.5 * megabyte : undefined);
    const file = join(dir, "broken");
    await transfer().download({ bucket, key: "in/broken" }, file);
    expect((await readFile(file)).equals(data)).toBe(true);
    expect(linksAsked).toBe(4);
    // Resumed, not repeated: from the start each time would have cost more than this.
    expect(line.down).toBeLessThan(8 * megabyte);
  });

  test("with a link that has run out gets a new one", async () => {
    await put("in/late", Buffer.from("content"));
    const stale = (await call("storage.link", { bucket, key: "in/late", expires: 1 })).url;
    await until(async () => (await fetch(stale)).status === 403, { what: "the link runs out" });
    const fresh = links();
    let asked = 0;
    const source = links({
      readLink: async (object) => (asked++ < 2 ? stale : fresh.readLink(object)),
    });
    const file = join(dir, "late");
    await transfer(source).download({ bucket, key: "in/late" }, file);
    expect(await readFile(file, "utf8")).toBe("content");
  });

  test("that is replaced in the middle comes whole in its new form", async () => {
    const [first, second] = [randomBytes(4 * megabyte), randomBytes(3 * megabyte)];
    await put("in/replaced", first);
    line.cutDownAfter = (connection) => (connection === 1 ? 2 * megabyte : undefined);
    const real = links();
    const source = links({
      async readLink(object) {
        if (line.connections === 1) await put("in/replaced", second);
        return real.readLink(object);
      },
    });
    const file = join(dir, "replaced");
    await transfer(source).download({ bucket, key: "in/replaced" }, file);
    expect((await readFile(file)).equals(second)).toBe(true);
  });

  test("that is empty, missing or too large", async () => {
    await put("in/empty", Buffer.alloc(0));
    await put("in/large", Buffer.alloc(1000));
    await transfer().download({ bucket, key: "in/empty" }, join(dir, "empty"));
    expect(await readFile(join(dir, "empty"))).toHaveLength(0);
    const bring = (key: string, bytesMax?: number) =>
      transfer().download({ bucket, key }, join(dir, "none"), bytesMax);
    await expect(bring("in/missing")).rejects.toMatchObject({ type: "OBJECT_NOT_FOUND" });
    await expect(bring("in/large", 999)).rejects.toMatchObject({ type: "PAYLOAD_TOO_LARGE" });
  });

  test("behind an address where nobody answers ends with a reason when patience does", async () => {
    await put("in/nobody", Buffer.from("x"));
    const source = links({ readLink: async () => "http://127.0.0.1:9/objects/reelmesh/in/nobody" });
    await expect(
      transfer(source, { storageWaitMs: 50 }).download(
        { bucket, key: "in/nobody" },
        join(dir, "n"),
      ),
    ).rejects.toMatchObject({
      type: "UNAVAILABLE",
      message: expect.stringContaining("127.0.0.1:9 failed (ECONNREFUSED)"),
    });
  });

  test("is not looked for elsewhere: a redirect is not followed", async () => {
    const target = createHttpServer((_, response) => {
      response.writeHead(302, { location: "http://169.254.169.254/" }).end();
    });
    await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
    const { port } = target.address() as { port: number };
    const source = links({ readLink: async () => `http://127.0.0.1:${port}/x` });
    const bringing = transfer(source, { storageWaitMs: 0 }).download(
      { bucket, key: "in/x" },
      join(dir, "x"),
    );
    await expect(bringing).rejects.toMatchObject({
      message: expect.stringContaining("answers with status 302"),
    });
    target.closeAllConnections();
    await new Promise((resolve) => target.close(resolve));
  });
});

describe("an output on its way to storage", () => {
  const object = (key: string) => ({ bucket, key, contentType: "video/mp4" });

  test("is repeated when the line breaks, and stored whole with its size and hash", async () => {
    const data = randomBytes(3 * megabyte);
    const file = join(dir, "out");
    await writeFile(file, data);
    line.cutUpAfter = (connection) => (connection <= 2 ? megabyte : undefined);
    const { bytes, sha256 } = await transfer().upload(file, object("out/broken"));
    expect(bytes).toBe(data.length);
    expect(sha256).toHaveLength(64);
    expect(await call("storage.stat", { bucket, key: "out/broken" })).toMatchObject({
      bytes,
      contentType: "video/mp4",
    });
    expect(line.connections).toBe(3);
  });

  test("that was bent on the way is refused by the store and sent again", async () => {
    const data = Buffer.alloc(megabyte, "a");
    const file = join(dir, "bent");
    await writeFile(file, data);
    let isBent = false;
    line.bend = (chunk, connection) => {
      const at = chunk.indexOf("aaaa");
      if (connection !== 1 || at < 0 || isBent) return chunk;
      isBent = true;
      return Buffer.from(chunk.fill("b", at, at + 1));
    };
    await transfer().upload(file, object("out/bent"));
    expect(isBent).toBe(true);
    expect(line.connections).toBe(2);
    const stored = await call("storage.read", { bucket, key: "out/bent" });
    expect(Buffer.concat(await (stored as Readable).toArray()).equals(data)).toBe(true);
  });

  test("whose attempt ends in the middle is not stored", async () => {
    const file = join(dir, "fenced");
    await writeFile(file, randomBytes(2 * megabyte));
    line.bend = (chunk) => {
      if (line.up > megabyte) abort.abort(new Error("fenced"));
      return chunk;
    };
    await expect(transfer().upload(file, object("out/fenced"))).rejects.toThrow("fenced");
    expect(await isThere("out/fenced")).toBe(false);
  });

  test("whose attempt ends when all is sent settles only once it is stored, so that it can be removed", async () => {
    const file = join(dir, "settled");
    await writeFile(file, Buffer.alloc(1000, "x"));
    line.bend = (chunk) => {
      abort.abort(new Error("fenced"));
      return chunk;
    };
    await expect(transfer().upload(file, object("out/settled"))).rejects.toThrow("fenced");
    // What comes after the end of the attempt finds what there is, and nothing comes later.
    await call("storage.remove", { bucket, key: "out/settled" });
    expect(await isThere("out/settled")).toBe(false);
  });

  test("to a server that takes nothing any more is not waited for without end", async () => {
    const silent = createServer((socket) => void socket.on("error", () => undefined).pause());
    const sockets: Socket[] = [];
    silent.on("connection", (socket) => sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as { port: number };
    const file = join(dir, "stuck");
    await writeFile(file, Buffer.alloc(16 * megabyte));
    const source = links({ uploadLink: async () => `http://127.0.0.1:${port}/x` });
    const sending = transfer(source, {
      storageWaitMs: 0,
      silenceMs: 200,
      transferTriesMin: 1,
    }).upload(file, object("out/stuck"));
    await expect(sending).rejects.toMatchObject({ type: "UNAVAILABLE" });
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => silent.close(resolve));
  });
});

describe("the storage service in the same process", () => {
  test("is used as it is, and goes on after a stream that broke", async () => {
    const data = randomBytes(2 * megabyte);
    await put("in/direct", data);
    const direct = directAccess({ call });
    let tries = 0;
    const objects = () => ({
      ...direct,
      async read(...args: Parameters<typeof direct.read>) {
        const opened = await direct.read(...args);
        tries += 1;
        if (tries > 2) return opened;
        async function* breaking() {
          let bytes = 0;
          for await (const chunk of opened.body) {
            yield chunk;
            bytes += chunk.length;
            if (bytes > megabyte / 2) throw new AppError("UNAVAILABLE", { reason: "cut" });
          }
        }
        return { ...opened, body: breaking() };
      },
    });
    const addresses = () => call("storage.addresses", {});
    const file = join(dir, "direct");
    const local = new ObjectTransfer({ objects, addresses }, limits, abort.signal);
    await local.download({ bucket, key: "in/direct" }, file);
    expect((await readFile(file)).equals(data)).toBe(true);
    expect(tries).toBe(3);
    const { bytes } = await local.upload(file, {
      bucket,
      key: "out/direct",
      contentType: "video/mp4",
    });
    expect(await call("storage.stat", { bucket, key: "out/direct" })).toMatchObject({ bytes });
  });
});

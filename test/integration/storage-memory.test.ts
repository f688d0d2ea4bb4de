import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { systemCall } from "../../lib/service.ts";
import { type Product, startProduct } from "../support/product.ts";

const MB = 1024 * 1024;
const SIZE_MB = 192;
/** Far below the object, far above what buffers and a lazy collector need. */
const GROWTH_MAX_MB = 96;

let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product.stop());

const block = Buffer.alloc(MB, "reelmesh ");
async function* blocks(count: number) {
  for (let n = 0; n < count; n += 1) yield block;
}
const expected = createHash("md5");
for (let n = 0; n < SIZE_MB; n += 1) expected.update(block);
const md5 = expected.digest("hex");

/** How far the resident memory of this process, server and client in one, rises while `work` runs. */
async function growthMb(work: () => Promise<unknown>): Promise<number> {
  const before = process.memoryUsage.rss();
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 5);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return (Math.max(peak, process.memoryUsage.rss()) - before) / MB;
}

describe("large objects", () => {
  test("an object passes through HTTP in and out without being held in memory", async () => {
    const call = systemCall(product.broker);
    const ref = { bucket: "reelmesh", key: "large.bin" };
    // Once small, so that what is set up on first use does not count.
    const { url } = await call("storage.uploadLink", ref);
    const upload = async (count: number) => {
      const response = await fetch(url, {
        method: "PUT",
        body: Readable.toWeb(Readable.from(blocks(count))) as ReadableStream,
        duplex: "half",
      } as RequestInit);
      expect(response.status).toBe(200);
    };
    await upload(8);
    expect(await growthMb(() => upload(SIZE_MB))).toBeLessThan(GROWTH_MAX_MB);
    expect(await call("storage.stat", ref)).toMatchObject({ bytes: SIZE_MB * MB, etag: md5 });

    const link = (await call("storage.link", ref)).url;
    const hash = createHash("md5");
    const grown = await growthMb(async () => {
      const response = await fetch(link);
      for await (const chunk of response.body ?? []) hash.update(chunk);
    });
    expect(hash.digest("hex")).toBe(md5);
    expect(grown).toBeLessThan(GROWTH_MAX_MB);
  });
});

import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { ObjectStore, PutLimits } from "../../services/storage/object-store.ts";

export interface StoreTraits {
  /** The entity tag of an object stored in one part is its MD5. */
  etagIsMd5: boolean;
  /** Keys that are also the folder of others can coexist with them, as in a store without directories. */
  flatKeys: boolean;
  /** Storing into a bucket that is not there makes it. */
  makesBuckets: boolean;
}

export interface OpenedStore {
  store: ObjectStore;
  /** Where the suite works; default a bucket of a fixed name. */
  bucket?: string;
  /** Gives everything back; fails when the store has left files of unfinished uploads. */
  close(): Promise<void>;
}

const md5 = (data: Uint8Array) => createHash("md5").update(data).digest("hex");
const type = "application/octet-stream";

/** What every driver of the port must do. Cases read declared traits, never a driver's name. */
export function objectStoreSuite(
  name: string,
  open: () => Promise<OpenedStore>,
  traits: StoreTraits,
) {
  describe(`object store: ${name}`, () => {
    let bucket = "suite-bucket";
    let opened: OpenedStore;
    let store: ObjectStore;
    beforeAll(async () => {
      opened = await open();
      store = opened.store;
      bucket = opened.bucket ?? bucket;
      await store.ensureBucket(bucket);
    }, 120_000);
    afterAll(async () => {
      await opened?.close();
    });

    const put = (key: string, data: string | Uint8Array, limits?: PutLimits) =>
      store.put({ bucket, key, contentType: type }, Readable.from([Buffer.from(data)]), limits);
    const content = async (key: string) => buffer(await store.read({ bucket, key }));
    const keysOf = async (prefix: string) => {
      const { objects } = await store.list({ bucket, prefix, delimiter: "", limit: 1000 });
      return objects.map(({ key }) => key);
    };

    test("what was stored is read back with its type, size and tag", async () => {
      const data = Buffer.from("a clip, 片段");
      const stored = await store.put(
        { bucket, key: "basic/clip.mp4", contentType: "video/mp4" },
        Readable.from([data.subarray(0, 3), data.subarray(3)]),
      );
      expect(await content("basic/clip.mp4")).toEqual(data);
      const stat = await store.stat({ bucket, key: "basic/clip.mp4" });
      expect(stat).toMatchObject({ bytes: data.length, contentType: "video/mp4" });
      expect(stat.etag).toBe(stored.etag);
      if (traits.etagIsMd5) expect(stat.etag).toBe(md5(data));
    });

    test("an empty object has zero bytes", async () => {
      await store.put({ bucket, key: "empty", contentType: type }, Readable.from([]));
      expect(await content("empty")).toHaveLength(0);
      expect((await store.stat({ bucket, key: "empty" })).bytes).toBe(0);
    });

    test.each([
      [0, 0, "0"],
      [2, 5, "2345"],
      [7, undefined, "789"],
      [8, 100, "89"],
    ])("the range from %p to %p is %p", async (start, end, expected) => {
      await put("range", "0123456789");
      const part = await buffer(await store.read({ bucket, key: "range" }, { start, end }));
      expect(part.toString()).toBe(expected);
    });

    test("a read bound to a tag refuses the content that replaced it", async () => {
      const first = await put("bound", "first");
      const same = await store.read({ bucket, key: "bound" }, { etag: first.etag });
      expect((await buffer(same)).toString()).toBe("first");
      await put("bound", "second");
      await expect(
        store.read({ bucket, key: "bound" }, { etag: first.etag }),
      ).rejects.toMatchObject({ type: "OBJECT_CHANGED" });
    });

    test("a reader that began before a replacement gets the old content whole", async () => {
      const old = Buffer.alloc(300_000, "o");
      await put("replaced", old);
      const reading = await store.read({ bucket, key: "replaced" });
      await put("replaced", "new");
      expect(md5(await buffer(reading))).toBe(md5(old));
      expect((await content("replaced")).toString()).toBe("new");
    });

    test("what is not there answers OBJECT_NOT_FOUND, and its removal is no error", async () => {
      const ref = { bucket, key: "missing/thing" };
      await expect(store.stat(ref)).rejects.toMatchObject({ type: "OBJECT_NOT_FOUND" });
      await expect(store.read(ref)).rejects.toMatchObject({ type: "OBJECT_NOT_FOUND" });
      await store.remove(ref);
      const elsewhere = "no-such-bucket";
      await store.remove({ bucket: elsewhere, key: "thing" });
      expect(await store.removePrefix(elsewhere, "missing/")).toBe(0);
      await expect(store.read({ bucket: elsewhere, key: "thing" })).rejects.toMatchObject({
        type: expect.stringMatching(/^(OBJECT|BUCKET)_NOT_FOUND$/),
      });
    });

    test("a removed object is gone and its neighbours stay", async () => {
      await put("rm/a", "a");
      await put("rm/b", "b");
      await store.remove({ bucket, key: "rm/a" });
      expect(await keysOf("rm/")).toEqual(["rm/b"]);
    });

    test("a stream that breaks off leaves the old object and nothing of the new one", async () => {
      await put("broken", "kept");
      async function* breaking() {
        yield Buffer.alloc(100_000);
        throw new Error("the line is dead");
      }
      for (const key of ["broken", "broken-new"])
        await expect(
          store.put({ bucket, key, contentType: type }, Readable.from(breaking())),
        ).rejects.toThrow("the line is dead");
      expect((await content("broken")).toString()).toBe("kept");
      expect(await keysOf("broken")).toEqual(["broken"]);
    });

    test("a stream that breaks off after several parts leaves nothing", async () => {
      async function* breaking() {
        for (let n = 0; n < 40; n += 1) yield Buffer.alloc(1024 * 1024);
        throw new Error("the line is dead");
      }
      await expect(
        store.put({ bucket, key: "broken-large", contentType: type }, breaking()),
      ).rejects.toThrow("the line is dead");
      expect(await keysOf("broken-large")).toEqual([]);
    });

    test.each([
      ["too long for its limit", { bytesMax: 4 }, "PAYLOAD_TOO_LARGE"],
      ["shorter than required", { bytesMin: 6 }, "UPLOAD_REJECTED"],
      ["longer than announced", { bytes: 4 }, "PAYLOAD_TOO_LARGE"],
      ["shorter than announced", { bytes: 6 }, "UPLOAD_REJECTED"],
    ])("a body %s is refused and stores nothing", async (_why, limits, expected) => {
      await expect(put("limited", "12345", limits)).rejects.toMatchObject({ type: expected });
      expect(await keysOf("limited")).toEqual([]);
      await put("limited", "12345", { bytes: 5, bytesMin: 5, bytesMax: 5 });
      await store.remove({ bucket, key: "limited" });
    });

    test("keys of any script, case and length are told apart", async () => {
      const long = `${"长".repeat(80)}/${"k".repeat(240)}/${"e".repeat(240)}`;
      const keys = [
        "odd/Clip.MP4",
        "odd/clip.mp4",
        "odd/with space & plus+%2F?#.txt",
        "odd/中文/字幕.srt",
        "odd/e\u0301.txt",
        "odd/\u00e9.txt",
        "odd/emoji-🎬.mp4",
        `odd/${long}`,
      ];
      for (const key of keys) await put(key, `content of ${key}`);
      for (const key of keys) expect((await content(key)).toString()).toBe(`content of ${key}`);
      expect((await keysOf("odd/")).sort()).toEqual([...keys].sort());
    });

    if (traits.flatKeys)
      test("a key may be the folder of another", async () => {
        await put("flat/a", "file");
        await put("flat/a/b", "below");
        expect((await content("flat/a")).toString()).toBe("file");
        expect((await content("flat/a/b")).toString()).toBe("below");
      });

    test("a listing rolls folders up and goes on page by page without gaps or repeats", async () => {
      const keys = ["l/a/1", "l/a/2", "l/b", "l/c/x/y", "l/c/z", "l/d", "l/中/1"];
      for (const key of keys) await put(key, key);
      for (const limit of [1, 2, 3, 100]) {
        const seen: string[] = [];
        let token: string | undefined;
        let pages = 0;
        do {
          const page = await store.list({ bucket, prefix: "l/", delimiter: "/", token, limit });
          expect(page.objects.length + page.folders.length).toBeLessThanOrEqual(limit);
          seen.push(...page.objects.map(({ key }) => key), ...page.folders);
          token = page.next;
          pages += 1;
        } while (token !== undefined && pages < 20);
        expect(seen.sort()).toEqual(["l/a/", "l/b", "l/c/", "l/d", "l/中/"].sort());
      }
      const [entry] = (await store.list({ bucket, prefix: "l/b", delimiter: "/", limit: 5 }))
        .objects;
      expect(entry).toMatchObject({ key: "l/b", bytes: 3 });
      expect(Math.abs((entry?.modifiedAt ?? 0) - Date.now())).toBeLessThan(60_000);
    });

    test("a folder is an empty object that a listing shows as a folder", async () => {
      await store.put({ bucket, key: "f/new/", contentType: type }, Readable.from([]));
      const page = await store.list({ bucket, prefix: "f/", delimiter: "/", limit: 10 });
      expect(page).toMatchObject({ objects: [], folders: ["f/new/"] });
    });

    test("removal by prefix takes that prefix only", async () => {
      for (const key of ["p/1", "p/2/3", "p/2/4", "p2", "q"]) await put(key, key);
      expect(await store.removePrefix(bucket, "p/")).toBe(3);
      expect(await store.removePrefix(bucket, "p/")).toBe(0);
      expect([...(await keysOf("p")), ...(await keysOf("q"))]).toEqual(["p2", "q"]);
    });

    test("a bucket that is not there is named", async () => {
      await expect(
        store.list({ bucket: "no-such-bucket", prefix: "", delimiter: "/", limit: 1 }),
      ).rejects.toMatchObject({ type: "BUCKET_NOT_FOUND", data: { bucket: "no-such-bucket" } });
      const storing = store.put(
        { bucket: "made-by-put", key: "x", contentType: type },
        Readable.from(["x"]),
      );
      if (traits.makesBuckets) expect(await storing).toMatchObject({ bytes: 1 });
      else await expect(storing).rejects.toMatchObject({ type: "BUCKET_NOT_FOUND" });
    });

    test("of 10 concurrent stores of one key exactly one content stays, whole", async () => {
      const contents = Array.from({ length: 10 }, (_, n) => Buffer.alloc(50_000, `${n}`));
      await Promise.all(contents.map((data) => put("race", data)));
      expect(contents.map(md5)).toContain(md5(await content("race")));
    });

    test("an object of several parts comes back byte for byte", async () => {
      const block = Buffer.from(Array.from({ length: 1024 * 1024 }, (_, n) => (n * 31 + 7) % 256));
      const blocks = 35;
      async function* source() {
        for (let n = 0; n < blocks; n += 1)
          yield Buffer.concat([block.subarray(n), block.subarray(0, n)]);
      }
      const expected = createHash("md5");
      for await (const part of source()) expected.update(part);
      const stored = await store.put({ bucket, key: "large", contentType: type }, source());
      expect(stored.bytes).toBe(blocks * block.length);
      const actual = createHash("md5");
      for await (const part of await store.read({ bucket, key: "large" })) actual.update(part);
      expect(actual.digest("hex")).toBe(expected.digest("hex"));
    });
  });
}

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { DiskStore } from "../../services/storage/disk-store.ts";
import { objectStoreSuite } from "../support/object-store.suite.ts";

const filesUnder = async (dir: string) =>
  (await readdir(dir, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);

objectStoreSuite(
  "files on disk",
  async () => {
    const dir = await mkdtemp(join(tmpdir(), "reelmesh-objects-"));
    const store = await DiskStore.open(dir);
    return {
      store,
      async close() {
        for (const bucket of ["suite-bucket", "made-by-put"]) {
          for (const prefix of (
            await store.list({ bucket, prefix: "", delimiter: "", limit: 1000 })
          ).objects)
            await store.remove(prefix);
        }
        const left = await filesUnder(join(dir, "objects"));
        await store.close();
        await rm(dir, { recursive: true });
        expect(left).toEqual([]);
      },
    };
  },
  { etagIsMd5: true, flatKeys: true, makesBuckets: true },
);

describe("disk store", () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "reelmesh-objects-"));
  });
  afterEach(() => rm(dir, { recursive: true }));

  const ref = { bucket: "b-1", key: "k", contentType: "text/plain" };

  // Other systems have no such device.
  const onLinux = process.platform === "linux" ? test : test.skip;
  onLinux(
    "a disk that fills up answers DISK_FULL, keeps the old object and leaves no file",
    async () => {
      let full = false;
      const store = await DiskStore.open(dir, async (path) => {
        const handle = await open(path, "wx");
        if (!full) return handle;
        await handle.close();
        // The kernel itself says ENOSPC to every write to this device.
        return open("/dev/full", "w");
      });
      await store.put(ref, Readable.from(["old"]));
      full = true;
      await expect(store.put(ref, Readable.from(["new"]))).rejects.toMatchObject({
        type: "DISK_FULL",
      });
      expect((await buffer(await store.read(ref))).toString()).toBe("old");
      expect(await filesUnder(join(dir, "objects"))).toHaveLength(1);
      await store.close();
    },
  );

  test("kill -9 in the middle of a replacement: the next start has the old object and no other file", async () => {
    const store = await DiskStore.open(dir);
    await store.put(ref, Readable.from(["old"]));
    await store.close();
    const module = new URL("../../services/storage/disk-store.ts", import.meta.url).href;
    const script = join(dir, "endless.mjs");
    await writeFile(
      script,
      `import { DiskStore } from ${JSON.stringify(module)};
       const store = await DiskStore.open(${JSON.stringify(dir)});
       async function* endless() {
         for (let n = 0; ; n += 1) {
           yield Buffer.alloc(65536);
           if (n === 3) console.log("writing");
         }
       }
       await store.put(${JSON.stringify(ref)}, endless());`,
    );
    const child = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
      expect(await filesUnder(join(dir, "objects"))).toHaveLength(2);
    } finally {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    const again = await DiskStore.open(dir);
    expect(await filesUnder(join(dir, "objects"))).toHaveLength(1);
    expect((await buffer(await again.read(ref))).toString()).toBe("old");
    await again.close();
  });

  test("a listing of any keys, in pages of any size, is what sorting and cutting them gives", async () => {
    const store = await DiskStore.open(dir);
    let runs = 0;
    const text = (max: number) =>
      fc
        .array(fc.constantFrom("a", "b", "/", "中", "\u{10ffff}"), { minLength: 1, maxLength: max })
        .map((parts) => parts.join(""));
    const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(text(5), { minLength: 1, maxLength: 12 }),
        fc.oneof(fc.constant(""), text(2)),
        fc.constantFrom("", "/", "a"),
        fc.integer({ min: 1, max: 5 }),
        async (keys, prefix, delimiter, limit) => {
          runs += 1;
          const bucket = `run-${runs}`;
          await Promise.all(
            keys.map((key) => store.put({ ...ref, bucket, key }, Readable.from([]))),
          );
          const entries = keys
            .filter((key) => key.startsWith(prefix))
            .map((key) => {
              const cut = delimiter ? key.indexOf(delimiter, prefix.length) : -1;
              return cut < 0 ? key : `folder ${key.slice(0, cut + 1)}`;
            });
          const expected = [...new Set(entries)].sort(byBytes);
          const seen: string[] = [];
          let token: string | undefined;
          for (let page = 0; page === 0 || (token !== undefined && page < 20); page += 1) {
            const found = await store.list({ bucket, prefix, delimiter, token, limit });
            seen.push(...found.objects.map(({ key }) => key));
            seen.push(...found.folders.map((folder) => `folder ${folder}`));
            token = found.next;
          }
          expect(seen.sort(byBytes)).toEqual(expected);
        },
      ),
      { numRuns: 40, seed: 7 },
    );
    await store.close();
  });
});

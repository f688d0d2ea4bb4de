import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { ListMultipartUploadsCommand, S3Client } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { request } from "undici";
import type { S3Settings } from "../../services/storage/s3-client.ts";
import { S3Store } from "../../services/storage/s3-store.ts";
import { objectStoreSuite } from "../support/object-store.suite.ts";
import { named, resolveS3Names } from "../support/s3-names.ts";
import { serversForTests } from "../support/servers.ts";

const servers = await serversForTests("s3");
const md5Of = (text: string) => createHash("md5").update(text).digest("base64");

/** Both ways to name a bucket, of one and the same server. */
const ways: [string, () => S3Settings][] = [
  ["by path", () => servers.s3],
  [
    "by host",
    () => ({
      ...servers.s3,
      endpoint: named(servers.s3.endpoint),
      addressing: "virtual",
    }),
  ],
];

let restoreNames: () => void;
beforeAll(() => {
  restoreNames = resolveS3Names();
});
afterAll(() => restoreNames());

/** Uploads that were begun and neither completed nor ended: their parts lie on the server. */
async function openUploads(bucket: string): Promise<unknown[]> {
  const client = new S3Client({ ...servers.s3, forcePathStyle: true, credentials: servers.s3 });
  try {
    const { Uploads } = await client.send(new ListMultipartUploadsCommand({ Bucket: bucket }));
    return Uploads ?? [];
  } finally {
    client.destroy();
  }
}

servers.describe("S3 server", () => {
  for (const [way, settings] of ways) {
    const bucket = `${servers.prefix}-${way.replace(" ", "-")}`;
    objectStoreSuite(
      `a third-party S3 server, ${way}`,
      async () => {
        const store = new S3Store(settings());
        return {
          store,
          bucket,
          async close() {
            await store.close();
            expect(await openUploads(bucket)).toEqual([]);
          },
        };
      },
      // Its objects are files of their names, so that a name cannot be file and folder at once.
      { etagIsMd5: true, flatKeys: false, makesBuckets: false },
    );
  }

  describe.each(ways)("signed addresses, %s", (way, settings) => {
    const bucket = `${servers.prefix}-signed-${way.replace(" ", "-")}`;
    const ref = { bucket, key: "in/片段 1.txt" };
    const text = "hello world";
    const exact = { ...ref, bytes: text.length, md5: md5Of(text) };
    const forNode = { expires: 60, audience: "node" } as const;

    /** The store, and a client without its keys. */
    async function opened(
      use: (store: S3Store, send: (url: string, options?: object) => Promise<Answer>) => unknown,
    ): Promise<void> {
      const store = new S3Store(settings());
      try {
        await store.ensureBucket(bucket);
        await use(store, async (url, options) => {
          const { statusCode, body } = await request(url, options);
          return [statusCode, await body.text()];
        });
      } finally {
        await store.close();
      }
    }
    type Answer = [number, string];

    test("a link takes exactly the announced content and gives it out, also in part", async () => {
      await opened(async (store, send) => {
        const put = async (body: string, headers: Record<string, string>) =>
          (
            await send((await store.uploadUrl(exact, forNode)) ?? "", {
              method: "PUT",
              body,
              headers,
            })
          )[0];
        const md5 = { "content-md5": exact.md5 };
        expect(await put("hello", md5)).toBe(403);
        expect(await put("hello_world", {})).toBe(403);
        expect(await put("hello_world", md5)).toBe(400);
        await expect(store.stat(ref)).rejects.toMatchObject({ type: "OBJECT_NOT_FOUND" });
        expect(await put(text, md5)).toBe(200);
        const link = (await store.readUrl(ref, forNode)) ?? "";
        expect(await send(link)).toEqual([200, text]);
        expect(await send(link, { headers: { range: "bytes=6-" } })).toEqual([206, "world"]);
      });
    });

    test("a size that cannot be signed, or that one request cannot carry, gets no link of the server", async () => {
      await opened(async (store) => {
        expect(await store.uploadUrl(ref, forNode)).toBeUndefined();
        const huge = { ...ref, bytes: 6 * 1024 ** 3 };
        expect(await store.uploadUrl(huge, forNode)).toBeUndefined();
      });
    });

    test("clients are sent to the public address, nodes to the own one", async () => {
      const store = new S3Store({ ...settings(), publicEndpoint: "https://media.example:8443" });
      try {
        const hostFor = async (audience: "client" | "node") =>
          new URL((await store.readUrl(ref, { expires: 60, audience })) ?? "").host;
        expect(await hostFor("client")).toMatch(/(^|\.)media\.example:8443$/);
        expect(await hostFor("node")).toMatch(/localhost:\d+$|^127\.0\.0\.1:\d+$/);
      } finally {
        await store.close();
      }
    });

    test("a form of policy version 4 stores within its folder and size, and nothing else", async () => {
      await opened(async (store, send) => {
        const { url, fields } = await store.postForm({
          bucket,
          dir: "from browsers",
          bytesMax: 10,
          expires: 60,
        });
        const post = async (key: string, content: string) => {
          const form = new FormData();
          for (const [name, value] of Object.entries({ ...fields, key })) form.append(name, value);
          form.append("file", new Blob([content]));
          const encoded = new Request("http://any", { method: "POST", body: form });
          const [status] = await send(url, {
            method: "POST",
            headers: { "content-type": encoded.headers.get("content-type") ?? "" },
            body: Buffer.from(await encoded.arrayBuffer()),
          });
          return status;
        };
        expect(await post("from browsers/a.txt", "short")).toBe(204);
        expect(await post("from browsers/b.txt", "longer than ten bytes")).toBe(400);
        expect(await post("elsewhere/a.txt", "short")).toBe(403);
        const { objects } = await store.list({ bucket, prefix: "", delimiter: "", limit: 10 });
        expect(objects.map(({ key }) => key)).toContain("from browsers/a.txt");
        expect(objects.filter(({ key }) => /b\.txt|elsewhere/.test(key))).toEqual([]);
      });
    });
  });

  test("an upload whose source breaks leaves neither object nor parts", async () => {
    const bucket = `${servers.prefix}-broken`;
    const store = new S3Store(servers.s3);
    try {
      await store.ensureBucket(bucket);
      async function* breaking() {
        for (let n = 0; n < 40; n += 1) yield Buffer.alloc(1024 ** 2);
        throw new Error("the camera fell into the lake");
      }
      const ref = { bucket, key: "lake.mp4" };
      const putting = store.put({ ...ref, contentType: "video/mp4" }, breaking());
      await expect(putting).rejects.toMatchObject({ type: "STORAGE_FAILED" });
      await expect(store.stat(ref)).rejects.toMatchObject({ type: "OBJECT_NOT_FOUND" });
      expect(await openUploads(bucket)).toEqual([]);
    } finally {
      await store.close();
    }
  });

  test("content that has not the announced MD5 is not stored", async () => {
    const bucket = `${servers.prefix}-md5`;
    const store = new S3Store(servers.s3);
    try {
      await store.ensureBucket(bucket);
      const object = { bucket, key: "x", contentType: "text/plain" };
      const put = (content: string) =>
        store.put(object, Readable.from([content]), { md5: md5Of("right") });
      await expect(put("wrong")).rejects.toMatchObject({ type: "UPLOAD_REJECTED" });
      await expect(store.stat(object)).rejects.toMatchObject({ type: "OBJECT_NOT_FOUND" });
      expect(await put("right")).toMatchObject({ bytes: 5 });
    } finally {
      await store.close();
    }
  });
});

import { readdir } from "node:fs/promises";
import { Readable } from "node:stream";
import { ListMultipartUploadsCommand, S3Client } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { systemCall } from "../../lib/service.ts";
import { S3Store } from "../../services/storage/s3-store.ts";
import { objectStoreSuite } from "../support/object-store.suite.ts";
import { startProduct } from "../support/product.ts";
import { type S3Server, startVersitygw, versitygwAvailable } from "../support/versitygw.ts";

const available = await versitygwAvailable();
if (!available)
  console.warn(
    "S3 driver not tested: no versitygw found. Set VERSITYGW_PATH, or CI=true to install it with Go.",
  );

if (available)
  objectStoreSuite(
    "a third-party S3 server",
    async () => {
      const server = await startVersitygw();
      const store = new S3Store(server);
      return {
        store,
        async close() {
          const client = new S3Client({
            ...server,
            forcePathStyle: true,
            credentials: server,
          });
          const { Uploads } = await client.send(
            new ListMultipartUploadsCommand({ Bucket: "suite-bucket" }),
          );
          client.destroy();
          await store.close();
          await server.stop();
          expect(Uploads ?? []).toEqual([]);
        },
      };
    },
    // Its objects are files of their names, so that a name cannot be file and folder at once.
    { etagIsMd5: true, flatKeys: false, makesBuckets: false },
  );

const whereAvailable = available ? describe : describe.skip;
whereAvailable("product on an S3 server", () => {
  let server: S3Server;
  beforeAll(async () => {
    server = await startVersitygw();
  }, 300_000);
  afterAll(() => server?.stop());

  test("makes its bucket, stores there, and links straight to the server where the link expires", async () => {
    const product = await startProduct({
      S3_ENDPOINT: server.endpoint,
      OSS_ACCESSKEY_ID: server.accessKeyId,
      OSS_ACCESSKEY_SECRET: server.secretAccessKey,
      OSS_REGION: server.region,
      OSS_BUCKET_NAME: "product-own",
    });
    try {
      const call = systemCall(product.broker);
      const ref = { bucket: "product-own", key: "media/片段 1.txt" };
      await call(
        "storage.put",
        { ...ref, contentType: "text/plain" },
        { stream: Readable.from([Buffer.from("on the server")]) },
      );
      expect(await readdir(server.dir)).toContain("product-own");
      const direct = (await call("storage.link", { ...ref, expires: 60 })).url;
      expect(direct.startsWith(server.endpoint)).toBe(true);
      expect(await (await fetch(direct)).text()).toBe("on the server");
      const lasting = (await call("storage.link", ref)).url;
      expect(lasting.startsWith(product.url)).toBe(true);
      const part = await fetch(lasting, { headers: { range: "bytes=3-5" } });
      expect([part.status, await part.text()]).toEqual([206, "the"]);

      const ticket = (
        await product.request("POST", "/admin/cloudvendor/oss/getDirectUploadUrl", {
          token: product.config.MCP_TOKEN,
          body: { bucket: "product-own" },
        })
      ).body.responseData;
      const form = new FormData();
      form.append("key", "user-dir/x.txt");
      form.append("policy", ticket.policy);
      form.append("x-oss-signature-version", ticket.x_oss_signature_version);
      form.append("x-oss-credential", ticket.x_oss_credential);
      form.append("x-oss-date", ticket.x_oss_date);
      form.append("x-oss-signature", ticket.signature);
      form.append("x-oss-security-token", ticket.security_token);
      form.append("file", new Blob(["from a browser"]));
      expect((await fetch(ticket.host, { method: "POST", body: form })).status).toBe(204);
      const stat = await call("storage.stat", { bucket: "product-own", key: "user-dir/x.txt" });
      expect(stat.bytes).toBe(14);
    } finally {
      await product.stop();
    }
  });

  test("a server that refuses the key answers 2000 with its reason", async () => {
    const product = await startProduct({
      S3_ENDPOINT: server.endpoint,
      OSS_ACCESSKEY_ID: server.accessKeyId,
      OSS_ACCESSKEY_SECRET: "not-the-secret",
      OSS_REGION: server.region,
      LOG_LEVEL: "fatal",
    });
    try {
      const answer = await product.request("POST", "/common/cloudvendor-oss/upload-file", {
        token: product.config.MCP_TOKEN,
        body: { bucket: "product-own", object_key: "a.txt", file_content: "a" },
      });
      expect([answer.status, answer.body.returnCode]).toEqual([502, 2000]);
      expect(answer.body.message).toContain("SignatureDoesNotMatch");
    } finally {
      await product.stop();
    }
  });
});

import { Readable } from "node:stream";
import { ListBucketsCommand, S3Client } from "@aws-sdk/client-s3";
import { expect, test } from "@jest/globals";
import { systemCall } from "../../lib/service.ts";
import { startProduct } from "../support/product.ts";
import { serversForTests } from "../support/servers.ts";

const servers = await serversForTests("s3");
/** The server seen past our driver. */
const direct = () => new S3Client({ ...servers.s3, forcePathStyle: true, credentials: servers.s3 });

servers.describe("product on an S3 server", () => {
  const bucket = `${servers.prefix}-product`;
  const settings = () => ({
    S3_ENDPOINT: servers.s3.endpoint,
    OSS_ACCESSKEY_ID: servers.s3.accessKeyId,
    OSS_ACCESSKEY_SECRET: servers.s3.secretAccessKey,
    OSS_REGION: servers.s3.region,
  });

  test("makes its bucket, stores there, and links straight to the server where the link expires", async () => {
    const product = await startProduct({ ...settings(), OSS_BUCKET_NAME: bucket });
    try {
      const call = systemCall(product.broker);
      const ref = { bucket, key: "media/片段 1.txt" };
      await call(
        "storage.put",
        { ...ref, contentType: "text/plain" },
        { stream: Readable.from([Buffer.from("on the server")]) },
      );
      const client = direct();
      const { Buckets } = await client.send(new ListBucketsCommand({}));
      client.destroy();
      expect(Buckets?.map(({ Name }) => Name)).toContain(bucket);
      const expiring = (await call("storage.link", { ...ref, expires: 60 })).url;
      expect(expiring.startsWith(servers.s3.endpoint)).toBe(true);
      expect(await (await fetch(expiring)).text()).toBe("on the server");
      const lasting = (await call("storage.link", ref)).url;
      expect(lasting.startsWith(product.url)).toBe(true);
      const part = await fetch(lasting, { headers: { range: "bytes=3-5" } });
      expect([part.status, await part.text()]).toEqual([206, "the"]);

      const ticket = (
        await product.request("POST", "/admin/cloudvendor/oss/getDirectUploadUrl", {
          token: product.config.MCP_TOKEN,
          body: { bucket },
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
      const stat = await call("storage.stat", { bucket, key: "user-dir/x.txt" });
      expect(stat.bytes).toBe(14);
    } finally {
      await product.stop();
    }
  });

  test("a server that refuses the key answers 2000 with its reason", async () => {
    const product = await startProduct({
      ...settings(),
      OSS_ACCESSKEY_SECRET: "not-the-secret",
      LOG_LEVEL: "fatal",
    });
    try {
      const answer = await product.request("POST", "/common/cloudvendor-oss/upload-file", {
        token: product.config.MCP_TOKEN,
        body: { bucket, object_key: "a.txt", file_content: "a" },
      });
      expect([answer.status, answer.body.returnCode]).toEqual([502, 2000]);
      expect(answer.body.message).toContain("SignatureDoesNotMatch");
    } finally {
      await product.stop();
    }
  });
});

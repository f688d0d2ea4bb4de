import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { Readable } from "node:stream";
import { ListMultipartUploadsCommand, ListPartsCommand, S3Client } from "@aws-sdk/client-s3";
import { expect, test } from "@jest/globals";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { systemCall } from "../../lib/service.ts";
import { storageLimits } from "../../services/storage/config.ts";
import { S3Store } from "../../services/storage/s3-store.ts";
import { startProduct } from "../support/product.ts";
import { ownServersForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const own = await ownServersForTests("s3");
const accessOf = (env: Record<string, string>) => ({
  endpoint: env["S3_ENDPOINT"] ?? "",
  region: env["OSS_REGION"] ?? "",
  accessKeyId: env["OSS_ACCESSKEY_ID"] ?? "",
  secretAccessKey: env["OSS_ACCESSKEY_SECRET"] ?? "",
});

own.describe("S3 server that goes and comes", () => {
  test("a product that starts before its server says what is missing, and works when the server is there", async () => {
    const servers = await own.start();
    const server = servers.get("s3");
    await server.kill();
    const product = await startProduct({ ...servers.env, LOG_LEVEL: "fatal" });
    try {
      const call = systemCall(product.broker);
      const ref = { bucket: product.config.OSS_BUCKET_NAME, key: "a.txt" };
      const put = () =>
        call(
          "storage.put",
          { ...ref, contentType: "text/plain" },
          { stream: Readable.from(["hello"]) },
        );
      const state = () =>
        dependenciesOf(product.config)
          .list()
          .find(({ name }) => name === "s3");
      await expect(put()).rejects.toMatchObject({
        type: "UNAVAILABLE",
        message: expect.stringContaining("ECONNREFUSED"),
      });
      expect(state()).toMatchObject({ state: "down" });
      await server.start();
      await until(() => state()?.state === "up", { what: "the server is found" });
      expect(await put()).toMatchObject({ bytes: 5 });
      await server.kill();
      await expect(call("storage.stat", ref)).rejects.toMatchObject({ type: "UNAVAILABLE" });
      await server.start();
      expect(await call("storage.stat", ref)).toMatchObject({ bytes: 5 });
    } finally {
      await product.stop();
    }
  });

  test("parts of an upload whose process was killed are removed, those of a living one are not", async () => {
    const servers = await own.start();
    const access = accessOf(servers.env);
    const [bucket, key] = ["killed-uploads", "video.mp4"];
    const store = new S3Store(access);
    const client = new S3Client({ ...access, forcePathStyle: true, credentials: access });
    const uploads = async () =>
      (await client.send(new ListMultipartUploadsCommand({ Bucket: bucket }))).Uploads ?? [];
    const parts = async () => {
      const [upload] = await uploads();
      if (!upload) return [];
      const { UploadId } = upload;
      const page = await client.send(new ListPartsCommand({ Bucket: bucket, Key: key, UploadId }));
      return page.Parts ?? [];
    };
    await store.ensureBucket(bucket);
    const program = join(import.meta.dirname, "../support/upload-child.ts");
    const { endpoint, region, accessKeyId, secretAccessKey } = access;
    const args = [program, endpoint, region, accessKeyId, secretAccessKey, bucket, key];
    const child = spawn(process.execPath, ["--no-warnings", ...args], { stdio: "ignore" });
    const gone = once(child, "exit");
    try {
      await until(async () => (await parts()).length > 0, { what: "a part" });
      child.kill("SIGKILL");
      await gone;
      const idleMs = storageLimits.s3UploadIdleMs;
      expect(await store.endStaleUploads(bucket, idleMs, Date.now())).toBe(0);
      expect(await uploads()).toHaveLength(1);
      await store.upkeep(bucket, Date.now() + idleMs + 60_000);
      expect(await uploads()).toEqual([]);
      expect(await store.endStaleUploads(bucket, 0, Date.now())).toBe(0);
    } finally {
      child.kill("SIGKILL");
      client.destroy();
      await store.close();
    }
  });
});

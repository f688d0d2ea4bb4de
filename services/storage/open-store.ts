import { isIP } from "node:net";
import type { Config } from "../../lib/config.ts";
import { AppError } from "../../lib/errors.ts";
import { DiskStore } from "./disk-store.ts";
import type { ObjectStore } from "./object-store.ts";

/** An S3 server where one is set, files in DATA_DIR otherwise. */
export async function openStore(config: Config): Promise<ObjectStore> {
  if (!config.S3_ENDPOINT) return DiskStore.open(config.DATA_DIR);
  if (!config.OSS_ACCESSKEY_ID || !config.OSS_ACCESSKEY_SECRET)
    throw new AppError("NOT_CONFIGURED", {
      what: "S3_ENDPOINT",
      fix: "set OSS_ACCESSKEY_ID and OSS_ACCESSKEY_SECRET with it",
    });
  // Only where it is needed: the library costs memory and start-up time.
  const { S3Store } = await import("./s3-store.ts");
  const { hostname } = new URL(config.S3_ENDPOINT);
  if (config.S3_ADDRESSING === "virtual" && isIP(hostname.replace(/^\[|\]$/g, "")))
    throw new AppError("NOT_CONFIGURED", {
      what: "S3_ADDRESSING",
      fix: "virtual puts the bucket's name before a host name, and S3_ENDPOINT has an IP address; set it to path",
    });
  return new S3Store({
    endpoint: config.S3_ENDPOINT,
    addressing: config.S3_ADDRESSING,
    publicEndpoint: config.S3_PUBLIC_ENDPOINT,
    region: config.OSS_REGION,
    accessKeyId: config.OSS_ACCESSKEY_ID,
    secretAccessKey: config.OSS_ACCESSKEY_SECRET,
    publicUrl: config.OSS_DOMAIN,
    publicBucket: config.OSS_BUCKET_NAME,
  });
}

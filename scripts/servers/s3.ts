import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { ListBucketsCommand, S3Client } from "@aws-sdk/client-s3";
import { limits } from "./config.ts";
import { findProgram, goInstall } from "./install-steps.ts";
import { ManagedProcess } from "./managed-process.ts";
import type { ServerKind } from "./server.ts";
import { type Progress, ServerMissing } from "./server-cache.ts";

/** An S3 server of another author, so that the S3 driver is not proved against our own idea of the protocol. */
const fromGo = {
  program: "versitygw",
  module: "github.com/versity/versitygw/cmd/versitygw",
  version: "v1.8.0",
};

/** Name that stands for the server in tests of virtual-host addressing; no name server knows it. */
export const s3HostName = "s3.localhost";

async function program(progress: Progress): Promise<string> {
  const found =
    findProgram(fromGo.program, "VERSITYGW_PATH") ?? (await goInstall(fromGo, progress));
  if (found) return found;
  throw new ServerMissing(
    "There is no versitygw, and no Go to compile it: install Go, or set S3_ENDPOINT, OSS_ACCESSKEY_ID and OSS_ACCESSKEY_SECRET to a running S3 server.",
  );
}

export const s3: ServerKind = {
  name: "s3",
  setting: "S3_ENDPOINT",
  companions: ["OSS_ACCESSKEY_ID", "OSS_ACCESSKEY_SECRET", "OSS_REGION", "S3_ADDRESSING"],
  install: async (progress) => void (await program(progress)),
  async prepare({ dir, record, port, progress }) {
    const [data, sidecar] = [join(dir, "data"), join(dir, "meta")];
    for (const folder of [data, sidecar]) await mkdir(folder, { recursive: true });
    const env = {
      S3_ENDPOINT: `http://127.0.0.1:${port}`,
      OSS_ACCESSKEY_ID: "test-access",
      OSS_ACCESSKEY_SECRET: randomBytes(18).toString("base64url"),
      OSS_REGION: "us-east-1",
    };
    const recipe = {
      name: "s3",
      command: await program(progress),
      args: [
        ...["--port", `127.0.0.1:${port}`, "--region", env.OSS_REGION, "--quiet"],
        // Buckets are also served as hosts of their own under this name.
        ...["--virtual-domain", s3HostName],
        ...["posix", "--sidecar", sidecar, data],
      ],
      env: {
        ROOT_ACCESS_KEY_ID: env.OSS_ACCESSKEY_ID,
        ROOT_SECRET_ACCESS_KEY: env.OSS_ACCESSKEY_SECRET,
      },
      logFile: join(dir, "s3.log"),
    };
    return { processes: [new ManagedProcess(recipe, record)], env };
  },
  async ping(env) {
    const client = new S3Client({
      endpoint: env["S3_ENDPOINT"]!,
      region: env["OSS_REGION"] ?? "us-east-1",
      forcePathStyle: true,
      maxAttempts: 1,
      credentials: {
        accessKeyId: env["OSS_ACCESSKEY_ID"]!,
        secretAccessKey: env["OSS_ACCESSKEY_SECRET"]!,
      },
    });
    try {
      await client.send(new ListBucketsCommand({}), {
        abortSignal: AbortSignal.timeout(limits.pingMs),
      });
    } finally {
      client.destroy();
    }
  },
};

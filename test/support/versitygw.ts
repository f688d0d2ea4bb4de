import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

/** An S3 server of another author, so that the S3 driver is not proved against our own idea of the protocol. */
const MODULE = "github.com/versity/versitygw/cmd/versitygw";
const VERSION = "v1.8.0";
const INSTALL_MS = 300_000;

const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "reelmesh", "bin");

const installed = () =>
  process.env["VERSITYGW_PATH"] ??
  [cache, ...(process.env["PATH"] ?? "").split(delimiter), join(homedir(), "go", "bin")]
    .map((dir) => join(dir, "versitygw"))
    .find((path) => existsSync(path));

/** Whether the server is here, or may be installed: the latter only in CI, since it takes minutes. */
export async function versitygwAvailable(): Promise<boolean> {
  if (installed()) return true;
  if (process.env["CI"] !== "true") return false;
  return promisify(execFile)("go", ["version"]).then(
    () => true,
    () => false,
  );
}

async function binary(): Promise<string> {
  const found = installed();
  if (found) return found;
  await mkdir(cache, { recursive: true });
  await promisify(execFile)("go", ["install", `${MODULE}@${VERSION}`], {
    env: { ...process.env, GOBIN: cache },
    timeout: INSTALL_MS,
  });
  return join(cache, "versitygw");
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, "close");
  return port;
}

export interface S3Server {
  endpoint: string;
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
  /** Where it keeps its objects. */
  dir: string;
  stop(): Promise<void>;
}

/** Starts the server on a free port and in a fresh directory. */
export async function startVersitygw(): Promise<S3Server> {
  const path = await binary();
  const home = await mkdtemp(join(tmpdir(), "reelmesh-s3-"));
  const [dir, sidecar] = [join(home, "data"), join(home, "meta")];
  await mkdir(dir);
  await mkdir(sidecar);
  const port = await freePort();
  const [accessKeyId, secretAccessKey] = ["test-access", randomBytes(18).toString("base64url")];
  const region = "us-east-1";
  const child = spawn(
    path,
    [
      "--port",
      `127.0.0.1:${port}`,
      "--region",
      region,
      "--quiet",
      "posix",
      "--sidecar",
      sidecar,
      dir,
    ],
    {
      stdio: "ignore",
      env: {
        ...process.env,
        ROOT_ACCESS_KEY_ID: accessKeyId,
        ROOT_SECRET_ACCESS_KEY: secretAccessKey,
      },
    },
  );
  const exited = once(child, "exit");
  const stop = async () => {
    child.kill("SIGKILL");
    await exited;
    await rm(home, { recursive: true, force: true });
  };
  const endpoint = `http://127.0.0.1:${port}`;
  for (let n = 0; n < 200; n += 1) {
    if (child.exitCode !== null) break;
    const answers = await fetch(endpoint).then(
      () => true,
      () => false,
    );
    if (answers) return { endpoint, accessKeyId, secretAccessKey, region, dir, stop };
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await stop();
  throw new Error("versitygw did not start");
}

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import { type Config, loadConfig } from "../../lib/config.ts";
import { lockDataDir } from "../../lib/data-lock.ts";
import { natsOptions } from "../../lib/nats-options.ts";
import { systemCall } from "../../lib/service.ts";
import { type Product, startProduct } from "../support/product.ts";
import { serversForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const servers = await serversForTests("nats");
const running: Product[] = [];
const secrets = {
  ADMIN_PASSWORD: "password-of-admin",
  MCP_TOKEN: "token-of-the-agents",
  MESH_KEY: "key-of-this-mesh",
  STORAGE_SECRET: "secret-of-storage",
};

/** A node of this file's mesh; a name of its own keeps other tests out of it. */
async function node(SERVICES: string, env: Record<string, string> = {}): Promise<Product> {
  const product = await startProduct({
    ...secrets,
    TRANSPORTER: servers.natsUrl,
    NAMESPACE: servers.prefix,
    NODE_ID: SERVICES.replaceAll(",", "-"),
    SERVICES,
    ...env,
  });
  running.push(product);
  return product;
}

afterEach(async () => {
  for (const product of running.splice(0).reverse()) await product.stop();
});

servers.describe("roles on nodes of their own, over NATS", () => {
  test("a job goes from the gateway over the scheduler to the compose node and back", async () => {
    await node("platform");
    await node("scheduler");
    const compose = await node("compose");
    const gateway = await node("gateway");
    await gateway.broker.waitForServices(["auth", "scheduler"], 10_000, 50);
    const login = await gateway.request("POST", "/auth/admin/login", {
      body: { username: "admin", password: secrets.ADMIN_PASSWORD },
    });
    const { token } = login.body.responseData;
    const job = await gateway.request("POST", "/admin/scheduler/jobs", {
      token,
      body: { kind: "noop", payload: { ms: 1 } },
    });
    const path = `/admin/scheduler/jobs/${job.body.responseData.id}`;
    const read = async () => (await gateway.request("GET", path, { token })).body.responseData;
    await until(async () => (await read()).state === "success");
    expect((await read()).node).toBe(compose.broker.nodeID);
  });

  test("a second node with the same role and data of its own is refused, with what to set", async () => {
    await node("platform,scheduler");
    const another = { NODE_ID: "another", LOG_LEVEL: "fatal" };
    await expect(node("scheduler", another)).rejects.toThrow(
      /platform-scheduler of this mesh hosts scheduler already.*Set MONGO_URL on both/,
    );
    await expect(node("platform", another)).rejects.toThrow(
      /hosts platform already.*Set MONGO_URL and S3_ENDPOINT on both/,
    );
    // Any number of the others may join.
    await node("compose", { NODE_ID: "compose-a" });
    await node("compose", { NODE_ID: "compose-b" });
  });

  test("of two that start at once, one hosts the role", async () => {
    const started = await Promise.allSettled([
      node("scheduler", { NODE_ID: "one", LOG_LEVEL: "fatal" }),
      node("scheduler", { NODE_ID: "two", LOG_LEVEL: "fatal" }),
    ]);
    expect(started.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });

  test("meshes of different names on one server do not see each other", async () => {
    const first = await node("platform");
    const other = await node("platform", { NAMESPACE: `${servers.prefix}x`, NODE_ID: "other" });
    expect(await systemCall(other.broker)("$node.list" as never, {} as never)).toHaveLength(1);
    expect(first.broker.nodeID).not.toBe(other.broker.nodeID);
  });
});

describe("what a node may host where", () => {
  const dirs: string[] = [];
  const fresh = async () => {
    const dir = await mkdtemp(join(tmpdir(), "reelmesh-roles-"));
    dirs.push(dir);
    return dir;
  };
  afterAll(async () => {
    for (const dir of dirs) await rm(dir, { recursive: true, force: true });
  });

  test("two compose nodes never share a directory: each has its journal there", async () => {
    const config = {
      ...loadConfig({ DATA_DIR: await fresh() }).config,
      SERVICES: ["compose"],
    } as Config;
    const unlock = lockDataDir(config);
    expect(() => lockDataDir(config)).toThrow(/DATA_DIR.*in use by process/);
    unlock();
    lockDataDir(config)();
  });
});

describe("signing in at NATS", () => {
  let dir: string;
  const options = (env: Record<string, string>) =>
    natsOptions(
      loadConfig({ DATA_DIR: dir, TRANSPORTER: "nats://127.0.0.1:4222", ...env }).config,
      "test",
    );
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "reelmesh-nats-"));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  test("user and password come from the settings or from the address", () => {
    const given = options({ NATS_USER: "mesh", NATS_PASSWORD: "p" });
    expect([given.user, given.pass]).toEqual(["mesh", "p"]);
    const inUrl = options({ TRANSPORTER: "nats://a%40b:c%3Ad@one:4222,two:4223" });
    expect(inUrl).toMatchObject({ user: "a@b", pass: "c:d", servers: ["one:4222", "two:4223"] });
  });

  test("two ways to sign in, a missing half of a key pair and an unreadable file are named", () => {
    expect(() => options({ NATS_USER: "a", NATS_TOKEN: "b" })).toThrow(/more than one is set/);
    expect(() => options({ NATS_CA_FILE: join(dir, "none.pem") })).toThrow(/^NATS_CA_FILE: .*none/);
    const cert = join(dir, "cert.pem");
    return writeFile(cert, "x").then(() =>
      expect(() => options({ NATS_CERT_FILE: cert })).toThrow(/^NATS_KEY_FILE: missing/),
    );
  });

  test("tls:// asks for TLS, and a certificate authority does too", async () => {
    const ca = join(dir, "ca.pem");
    await writeFile(ca, "authority");
    expect(options({ TRANSPORTER: "tls://one:4222" }).tls).toEqual({});
    expect(options({ NATS_CA_FILE: ca }).tls).toEqual({ ca: "authority" });
    expect(options({}).tls).toBeUndefined();
  });
});

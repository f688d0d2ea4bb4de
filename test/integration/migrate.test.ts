import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { type Command, runScript } from "../support/command.ts";
import { type CuttableLine, cuttableLine } from "../support/cuttable-line.ts";
import { type Product, startProduct } from "../support/product.ts";
import { serversForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const servers = await serversForTests("mongo", "s3");

// biome-ignore lint/suspicious/noExplicitAny: answers are checked field by field
type Body = any;
type Send = (method: string, path: string, body?: unknown) => Promise<Body>;

const own = `${servers.prefix}-own`;
const second = `${servers.prefix}-second`;
const jobsPath = "/admin/scheduler/jobs";
const keys = [
  "片段/😀 1.txt",
  "a b+c%20&d=?#.txt",
  "deep/er/one.json",
  `q'uo"te.txt`,
  "UPPER/x.txt",
  "upper/x.txt",
];
/** No server is named: everything lies in DATA_DIR. */
const embedded = {
  MONGO_URL: "",
  REDIS_URL: "",
  TRANSPORTER: "",
  S3_ENDPOINT: "",
  OSS_ACCESSKEY_ID: "",
  OSS_ACCESSKEY_SECRET: "",
  OSS_BUCKET_NAME: own,
  HOST: "127.0.0.1",
  PORT: "0",
};
const s3 = () => ({
  S3_ENDPOINT: servers.s3.endpoint,
  OSS_ACCESSKEY_ID: servers.s3.accessKeyId,
  OSS_ACCESSKEY_SECRET: servers.s3.secretAccessKey,
  OSS_REGION: servers.s3.region,
});

let dir: string;
let running: Command[] = [];
let ways: CuttableLine[] = [];
let product: Product | undefined;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-migrate-"));
});
afterEach(async () => {
  await product?.stop();
  product = undefined;
  for (const { child, ended } of running) {
    child.kill("SIGKILL");
    await ended;
  }
  for (const way of ways) await way.cut();
  running = [];
  ways = [];
  await rm(dir, { recursive: true, force: true });
});

const script = (name: string, args: string[], env: Record<string, string>) => {
  const command = runScript(name, { args, env });
  running.push(command);
  return command;
};
/** The move to the cluster's database; what it wrote and how it ended. */
const migrate = async (args: string[], env: Record<string, string> = {}) => {
  const command = script("migrate", ["--from", dir, ...args], {
    MONGO_URL: servers.mongoUrl(),
    ...s3(),
    ...env,
  });
  const code = await command.ended;
  return { code, text: command.text() };
};

/** The embedded product in a process of its own. */
async function startEmbedded() {
  const command = script("start", [], { ...embedded, DATA_DIR: dir });
  const [, url] = await command.until(/serves (http:\S+)/);
  await command.until(/Ctrl-C stops it/);
  const { ADMIN_PASSWORD: password } = JSON.parse(
    await readFile(join(dir, "secrets.json"), "utf8"),
  );
  const login = await request(url!, "")("POST", "/auth/admin/login", {
    username: "admin",
    password,
  });
  return { command, token: login.token as string, send: request(url!, login.token) };
}

const request =
  (url: string, token: string): Send =>
  async (method, path, body) => {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const { responseData, message } = (await answer.json()) as Body;
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${message}`);
    return responseData;
  };

const upload = (send: Send, bucket: string, key: string, text: string) =>
  send("POST", "/common/cloudvendor-oss/upload-file", {
    bucket,
    object_key: key,
    file_content: text,
  });

/** Through the public interface: something of everything. */
async function fill(send: Send): Promise<void> {
  for (let n = 0; n < 12; n += 1) {
    const app = await send("POST", "/agent/admin/app", {
      name: `应用 ${n}`,
      config: { "a.b": { $set: n }, list: [1, null, 2.5] },
    });
    await send("POST", "/agent/admin/run", { app_id: app.id, input: { n } });
    const board = await send("POST", "/aigc/admin/storyboard", { title: `雨夜 ${n}` });
    await send("PATCH", `/aigc/admin/storyboard/${board.id}`, { idea: "rain" });
  }
  for (const key of keys) await upload(send, second, key, `content of ${key}`);
  for (let n = 0; n < 40; n += 1) await upload(send, second, `many/${n}.txt`, "x".repeat(n * 100));
  // More than one part of a multipart upload.
  await upload(send, second, "large.txt", "0123456789".repeat(700_000));
  const submit = (more: object) =>
    send("POST", jobsPath, { kind: "noop", payload: { ms: 0 }, ...more });
  await submit({ payload: { ms: 0, output: "成品" }, idempotencyKey: "with output" });
  for (let n = 0; n < 120; n += 1)
    await submit({ idempotencyKey: `key ${n}`, priority: 1 + (n % 9) });
  const failing = await submit({ payload: { ms: 60_000 }, timeoutMs: 1_000, attemptsMax: 1 });
  await until(async () => (await send("GET", `${jobsPath}/${failing.id}`)).state === "failed", {
    limitMs: 60_000,
  });
  await send("POST", "/admin/scheduler/queues/held/pause");
  for (let n = 0; n < 3; n += 1) await submit({ queue: "held" });
  const cancelled = await submit({ queue: "held" });
  await send("POST", `${jobsPath}/${cancelled.id}/cancel`, { reason: "not needed" });
}

/** A job that runs and does not end soon. */
async function startLong(send: Send): Promise<string> {
  const long = await send("POST", jobsPath, { kind: "noop", payload: { ms: 8_000 } });
  await until(async () => (await send("GET", `${jobsPath}/${long.id}`)).state === "running", {
    limitMs: 30_000,
  });
  return long.id;
}

/** What the product answers about all of it. */
async function answers(send: Send): Promise<Record<string, Body>> {
  const found: Record<string, Body> = {};
  for (const path of ["/agent/admin/app", "/agent/admin/run", "/aigc/admin/storyboard"])
    found[path] = await send("GET", `${path}?pageSize=200&sort=createdAt,id`);
  found["search"] = await send("GET", `/agent/admin/app?search=${encodeURIComponent("用")}`);
  const jobs: Body[] = [];
  for (let after = ""; ; ) {
    const page = await send("GET", `${jobsPath}?limit=50${after}`);
    jobs.push(...page.jobs);
    if (page.next === undefined) break;
    after = `&after=${encodeURIComponent(page.next)}`;
  }
  found["jobs"] = jobs;
  found["logs"] = await Promise.all(
    jobs.map(async ({ id }) => [id, await send("GET", `${jobsPath}/${id}/log`)]),
  );
  found["stats"] = await send("GET", "/admin/scheduler/stats");
  return found;
}

/** Paths of signed links to every object, with the SHA-256 and type of what they lead to. */
async function objectsBy(url: string, paths: readonly string[]) {
  const hashes: Record<string, string> = {};
  for (const path of paths) {
    const answer = await fetch(`${url}${path}`);
    const bytes = Buffer.from(await answer.arrayBuffer());
    hashes[path] =
      `${answer.status} ${answer.headers.get("content-type")} ${createHash("sha256").update(bytes).digest("hex")}`;
  }
  return hashes;
}

async function links(send: Send): Promise<URL[]> {
  const found: URL[] = [];
  for (const bucket of [own, second]) {
    const path = `/common/cloudvendor-oss/list-files?bucket=${bucket}&delimiter=&max_keys=1000`;
    for (const { url } of (await send("GET", path)).files) found.push(new URL(url));
  }
  return found;
}

servers.describe("npm run migrate", () => {
  test("an installation moves into a cluster, killed on the way, and the cluster answers as it did", async () => {
    const old = await startEmbedded();
    await fill(old.send);
    const addresses = await links(old.send);
    expect(addresses.length).toBe(keys.length + 40 + 1 + 1);
    const paths = addresses.map(({ pathname, search }) => `${pathname}${search}`);
    const bytes = await objectsBy(addresses[0]!.origin, paths);
    const before = await answers(old.send);

    const busy = await migrate([]);
    expect([busy.code, busy.text]).toEqual([1, expect.stringMatching(/is in use by process \d+/)]);
    const long = await startLong(old.send);
    old.command.child.kill("SIGKILL");
    await old.command.ended;

    const look = await migrate(["--dry-run"], { MONGO_URL: "" });
    expect([look.code, look.text]).toEqual([0, expect.stringMatching(/^jobs: 127$/m)]);
    expect(existsSync(join(dir, "migration.json"))).toBe(false);

    const way = await cuttableLine(new URL(servers.s3.endpoint));
    ways.push(way);
    const line = { S3_ENDPOINT: `http://127.0.0.1:${way.port}` };
    // Killed while jobs come in, wherever exactly that is; then while objects do.
    const first = script("migrate", ["--from", dir], {
      MONGO_URL: servers.mongoUrl(),
      ...s3(),
      ...line,
    });
    await first.until(/^jobs: 100 of 127/m);
    first.child.kill("SIGKILL");
    await first.ended;
    const interrupted = script("migrate", ["--from", dir], {
      MONGO_URL: servers.mongoUrl(),
      ...s3(),
      ...line,
    });
    await interrupted.until(new RegExp(`^objects in ${second}: 0 of 47`, "m"));
    way.freeze();
    interrupted.child.kill("SIGKILL");
    expect([await interrupted.ended, interrupted.text()]).toEqual(["SIGKILL", expect.anything()]);
    await way.mend();

    const secretsFile = join(dir, "cluster.env");
    const whole = await migrate(["--secrets", secretsFile], line);
    expect(whole).toEqual({ code: 0, text: expect.stringContaining("Everything is equal.") });
    const again = await migrate([], line);
    expect([again.code, again.text]).toEqual([0, expect.stringMatching(/compared only/)]);
    const table = (text: string) => /^ +source[\s\S]*?\n\n/m.exec(text)![0];
    expect(table((await migrate(["--verify"], line)).text)).toBe(table(again.text));

    expect((await stat(secretsFile)).mode & 0o777).toBe(0o600);
    const secrets = Object.fromEntries(
      (await readFile(secretsFile, "utf8"))
        .trim()
        .split("\n")
        .map((text) => text.split(/=(.*)/s).slice(0, 2)),
    );
    for (const value of Object.values(secrets)) expect(whole.text).not.toContain(value);

    product = await startProduct({
      ...s3(),
      ...secrets,
      MONGO_URL: servers.mongoUrl(),
      OSS_BUCKET_NAME: own,
      REDIS_URL: "",
      TRANSPORTER: "",
    });
    const now = request(product.url, old.token);
    // The queue that is held is as it was; the job that ran is dealt with as after a crash.
    const after = await answers(now);
    const settle = (all: Record<string, Body>) => ({
      ...all,
      jobs: all["jobs"].filter(({ id }: Body) => id !== long),
      logs: all["logs"].filter(([id]: [string]) => id !== long),
      stats: all["stats"].paused,
    });
    expect(after["jobs"][0].id).toBe(long);
    expect(settle(after)).toEqual(settle(before));
    expect(await objectsBy(product.url, paths)).toEqual(bytes);

    await now("POST", "/admin/scheduler/queues/held/resume");
    const same = await now("POST", jobsPath, {
      kind: "noop",
      payload: { ms: 0 },
      idempotencyKey: "key 7",
      priority: 8,
    });
    expect(same).toMatchObject({ repeated: true });
    const stats = async () => (await now("GET", "/admin/scheduler/stats")).queues;
    await until(async () => (await stats()).held.success === 3, {
      what: "held jobs",
      limitMs: 30_000,
    });
    await until(async () => (await now("GET", `${jobsPath}/${long}`)).state === "success", {
      what: "the job that was running",
      limitMs: 90_000,
    });
    expect(await now("GET", `${jobsPath}/${long}`)).toMatchObject({ attempt: 2 });
    const queues = await stats();
    expect(queues).toMatchObject({
      default: { success: 122, failed: 1, running: 0, pending: 0 },
      held: { success: 3, cancelled: 1, pending: 0 },
    });

    // The cluster serves: what it has changed since is told, and nobody takes the database from it.
    const late = await migrate([], line);
    expect([late.code, late.text]).toEqual([1, expect.stringContaining(`job ${long} is another`)]);
    await rm(join(dir, "migration.json"));
    const taken = await migrate([], line);
    expect([taken.code, taken.text]).toEqual([1, expect.stringContaining("a scheduler leads")]);
  }, 300_000);
});

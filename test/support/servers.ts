import { randomBytes } from "node:crypto";
import {
  DeleteBucketCommand,
  DeleteObjectsCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
  S3Client,
} from "@aws-sdk/client-s3";
import { afterAll, afterEach, describe as jestDescribe } from "@jest/globals";
import { Redis } from "ioredis";
import { mongo as driver } from "mongoose";
import type { ServerName } from "../../scripts/servers/server.ts";
import { type Servers, startServers } from "../../scripts/servers/start-servers.ts";
import { type Answer, deskVariable } from "./servers-global.ts";

/** How a client reaches the S3 server. */
export interface S3Access {
  endpoint: string;
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
}

/**
 * Servers that all test files of a run share: nobody may stop or flush them. What a file keeps there bears its prefix
 * and is removed when the file ends. A test that pulls plugs starts servers of its own with `startServers`.
 */
export class TestServers {
  /** Different for each test file and run. Small letters, digits and dashes; also fit for a bucket or a NATS namespace. */
  readonly prefix = `t${randomBytes(6).toString("hex")}`;
  /** Runs its tests; where a server cannot be had on a developer's machine it reports them as not run. */
  readonly describe: typeof jestDescribe | typeof jestDescribe.skip;
  readonly #env: Record<string, string>;
  readonly #databases = new Set<string>();

  constructor(env: Record<string, string>, there: boolean) {
    this.#env = env;
    this.describe = there ? jestDescribe : jestDescribe.skip;
  }

  /** Settings of the product that lead to the servers that were asked for, without database, prefix or bucket. */
  get env(): Record<string, string> {
    return { ...this.#env };
  }

  get natsUrl(): string {
    return this.#setting("TRANSPORTER");
  }

  /** Keys must begin with `prefix`. */
  get redisUrl(): string {
    return this.#setting("REDIS_URL");
  }

  /** A database of this file's own, dropped in the end; different names give different ones. */
  mongoUrl(name = "main"): string {
    const url = new URL(this.#setting("MONGO_URL"));
    url.pathname = `/${this.prefix}-${name}`;
    this.#databases.add(url.href);
    return url.href;
  }

  /** Buckets must begin with `prefix`. */
  get s3(): S3Access {
    return {
      endpoint: this.#setting("S3_ENDPOINT"),
      accessKeyId: this.#setting("OSS_ACCESSKEY_ID"),
      secretAccessKey: this.#setting("OSS_ACCESSKEY_SECRET"),
      region: this.#env["OSS_REGION"] ?? "us-east-1",
    };
  }

  /** Removes what bears the prefix. */
  async clean(): Promise<void> {
    for (const url of this.#databases) await dropDatabase(url);
    if (this.#env["REDIS_URL"]) await removeKeys(this.redisUrl, this.prefix);
    if (this.#env["S3_ENDPOINT"]) await removeBuckets(this.s3, this.prefix);
  }

  #setting(name: string): string {
    const value = this.#env[name];
    if (value === undefined) throw new Error(`${name}: ask for its server with serversForTests`);
    return value;
  }
}

/**
 * Asks for servers, once, at the top of a test file (`await`). The first time they are installed, which may take
 * minutes. What cannot be had fails the file under `CI=true`; elsewhere one line says why its tests are not run.
 */
export async function serversForTests(...names: ServerName[]): Promise<TestServers> {
  const { env, there } = await ask("shared", names);
  const servers = new TestServers(env, there);
  afterAll(() => servers.clean());
  return servers;
}

/**
 * The same for a file whose tests pull plugs: `start` starts servers of the test's own, whatever the environment
 * names. They are stopped after each test.
 */
export async function ownServersForTests(...names: ServerName[]) {
  const { there } = await ask("own", names);
  const started: Servers[] = [];
  afterEach(async () => {
    await Promise.all(started.splice(0).map((servers) => servers.stop()));
  });
  return {
    describe: there ? jestDescribe : jestDescribe.skip,
    async start(...only: ServerName[]): Promise<Servers> {
      const servers = await startServers({ only: only.length > 0 ? only : names, own: true });
      started.push(servers);
      return servers;
    },
  };
}

async function ask(what: "shared" | "own", names: readonly ServerName[]) {
  const desk = process.env[deskVariable];
  if (desk === undefined) throw new Error("no desk of servers: run this through jest.config.mjs");
  const answers = await Promise.all(
    names.map(async (name) => (await (await fetch(`${desk}${what}/${name}`)).json()) as Answer),
  );
  const reasons: string[] = [];
  const env: Record<string, string> = {};
  for (const answer of answers) {
    if ("broken" in answer) throw new Error(answer.broken);
    if ("missing" in answer) reasons.push(answer.missing);
    else Object.assign(env, answer.env);
  }
  if (reasons.length > 0 && process.env["CI"] === "true") throw new Error(reasons.join("\n"));
  for (const reason of reasons) process.stderr.write(`tests not run: ${reason}\n`);
  return { env, there: reasons.length === 0 };
}

async function dropDatabase(url: string): Promise<void> {
  const client = new driver.MongoClient(url);
  try {
    await client.db().dropDatabase();
  } finally {
    await client.close();
  }
}

async function removeKeys(url: string, prefix: string): Promise<void> {
  const client = new Redis(url);
  try {
    for await (const keys of client.scanStream({ match: `${prefix}*`, count: 1000 }))
      if (keys.length > 0) await client.unlink(keys);
  } finally {
    client.disconnect();
  }
}

async function removeBuckets(access: S3Access, prefix: string): Promise<void> {
  const client = new S3Client({ ...access, forcePathStyle: true, credentials: access });
  try {
    const { Buckets = [] } = await client.send(new ListBucketsCommand({}));
    for (const { Name: Bucket } of Buckets)
      if (Bucket?.startsWith(prefix)) await removeBucket(client, Bucket);
  } finally {
    client.destroy();
  }
}

async function removeBucket(client: S3Client, Bucket: string): Promise<void> {
  for (;;) {
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
    if (Contents.length === 0) break;
    const Objects = Contents.map(({ Key }) => ({ Key: Key! }));
    await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }));
  }
  await client.send(new DeleteBucketCommand({ Bucket }));
}

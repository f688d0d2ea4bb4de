import { access } from "node:fs/promises";
import {
  CreateBucketCommand,
  GetObjectCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { afterEach, expect, test } from "@jest/globals";
import { Redis } from "ioredis";
import { mongo as driver } from "mongoose";
import { connect as connectNats } from "nats";
import { identify, isSameProcess } from "../../services/compose/process-group.ts";
import { ownServersForTests, serversForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

// Declared before the servers, so that clients are closed before them.
const closers: (() => unknown)[] = [];
const closing = (close: () => unknown) => closers.push(close);
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const own = await ownServersForTests("nats", "redis", "mongo", "s3");
const shared = await serversForTests("mongo");

const gone = (path: string) =>
  access(path).then(
    () => false,
    () => true,
  );

own.describe("servers of one's own", () => {
  test("redis keeps what it answered through a kill, on the same port", async () => {
    const servers = await own.start("redis");
    const redis = servers.get("redis");
    const client = new Redis(redis.url, { retryStrategy: () => 20 });
    client.on("error", () => undefined);
    closing(() => client.disconnect());
    await client.set("kept", "through the kill");
    const before = await identify(redis.pid);
    await redis.kill();
    expect(await isSameProcess(before!)).toBe(false);
    expect(() => redis.pid).toThrow("redis does not run");
    await redis.start();
    expect(await client.get("kept")).toBe("through the kill");
  });

  test("nats answers a request again after a restart, to a client that stayed", async () => {
    const servers = await own.start("nats");
    const nats = servers.get("nats");
    const client = await connectNats({ servers: nats.url, reconnectTimeWait: 20 });
    closing(() => client.close());
    client.subscribe("echo", { callback: (_, message) => message.respond(message.data) });
    const echo = async () => (await client.request("echo", "x", { timeout: 500 })).string();
    expect(await echo()).toBe("x");
    const first = nats.pid;
    await nats.restart();
    expect(nats.pid).not.toBe(first);
    await until(
      () =>
        echo().then(
          (text) => text === "x",
          () => false,
        ),
      { what: "the echo" },
    );
  });

  test("a paused server keeps its connections and answers after it is resumed", async () => {
    const servers = await own.start("redis");
    const redis = servers.get("redis");
    const client = new Redis(redis.url);
    closing(() => client.disconnect());
    await client.set("a", "1");
    await redis.pause();
    let answered = false;
    const answer = client.get("a").finally(() => {
      answered = true;
    });
    await expect(
      new Redis(redis.url, { lazyConnect: true, commandTimeout: 200, retryStrategy: () => null })
        .on("error", () => undefined)
        .get("a"),
    ).rejects.toThrow();
    expect(answered).toBe(false);
    await redis.resume();
    expect(await answer).toBe("1");
  });

  test("documents survive a kill of the database, of its front and of both, with a majority write", async () => {
    const servers = await own.start("mongo");
    const mongo = servers.get("mongo");
    expect(mongo.parts).toEqual(["postgres", "ferretdb"]);
    const client = new driver.MongoClient(mongo.url, { serverSelectionTimeoutMS: 20_000 });
    closing(() => client.close());
    const jobs = client.db("plugs").collection<{ _id: string; state: string }>("jobs");
    await jobs.createIndex({ state: 1 });
    const write = (id: string) =>
      jobs.insertOne({ _id: id, state: "pending" }, { writeConcern: { w: "majority" } });
    await write("before");
    for (const part of ["postgres", "ferretdb", undefined]) {
      await mongo.kill(part);
      await mongo.start();
      await until(
        () =>
          write(`after ${part}`).then(
            () => true,
            (error) => error.code === 11000,
          ),
        {
          what: "a write",
        },
      );
    }
    const ids = await jobs.find({ state: "pending" }).sort({ _id: 1 }).toArray();
    expect(ids.map(({ _id }) => _id)).toEqual([
      "after ferretdb",
      "after postgres",
      "after undefined",
      "before",
    ]);
  });

  test("of fifty concurrent compare-and-sets on the MongoDB-compatible server exactly one wins", async () => {
    const client = new driver.MongoClient(shared.mongoUrl("races"));
    closing(() => client.close());
    const jobs = client.db().collection<{ _id: string; node?: number }>("jobs");
    await jobs.insertOne({ _id: "one" });
    const claims = await Promise.all(
      Array.from({ length: 50 }, (_, node) =>
        jobs.updateOne({ _id: "one", node: { $exists: false } }, { $set: { node } }),
      ),
    );
    expect(claims.filter(({ modifiedCount }) => modifiedCount === 1)).toHaveLength(1);
  });

  test("objects survive a kill of the S3 server", async () => {
    const servers = await own.start("s3");
    const client = new S3Client({
      endpoint: servers.env["S3_ENDPOINT"]!,
      region: servers.env["OSS_REGION"]!,
      forcePathStyle: true,
      credentials: {
        accessKeyId: servers.env["OSS_ACCESSKEY_ID"]!,
        secretAccessKey: servers.env["OSS_ACCESSKEY_SECRET"]!,
      },
    });
    closing(() => client.destroy());
    const ref = { Bucket: "plugs", Key: "a/b.txt" };
    await client.send(new CreateBucketCommand({ Bucket: ref.Bucket }));
    await client.send(new PutObjectCommand({ ...ref, Body: "kept" }));
    await servers.get("s3").kill();
    await servers.get("s3").start();
    const { Body } = await client.send(new GetObjectCommand(ref));
    expect(await Body!.transformToString()).toBe("kept");
  });

  test("stop leaves no process, no folder and no record", async () => {
    const servers = await own.start();
    const roots = await Promise.all(servers.names.map((name) => identify(servers.get(name).pid)));
    await servers.stop();
    expect(await Promise.all(roots.map((root) => isSameProcess(root!)))).toEqual(
      roots.map(() => false),
    );
    expect(await gone(servers.dir)).toBe(true);
  });
});

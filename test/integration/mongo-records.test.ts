import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { acquireMongo, type MongoHandle } from "../../lib/mongo/connection.ts";
import { mongoFilter } from "../../lib/store/mongo-query.ts";
import { MongoRecordStore } from "../../lib/store/mongo-record-store.ts";
import { recordModel } from "../../lib/store/mongo-schema.ts";
import { parseFilter } from "../../lib/store/record-query.ts";
import { type Collection, defineCollection, type Filter } from "../../lib/store/record-store.ts";
import { clips } from "../support/record-arbitraries.ts";
import { recordStoreSuite } from "../support/record-store.suite.ts";
import { serversForTests } from "../support/servers.ts";

const servers = await serversForTests("mongo");
let places = 0;

/** An empty database, and how to be rid of it. */
async function database() {
  places += 1;
  const url = servers.mongoUrl(`records-${places}`);
  const handle = await acquireMongo(url);
  const drop = async () => {
    await handle.connection.dropDatabase();
    await handle.release();
  };
  return { url, handle, drop };
}

servers.describe("with a MongoDB server", () => {
  recordStoreSuite("MongoDB", async () => {
    const { url, drop } = await database();
    return { open: (collection) => MongoRecordStore.open(collection, { url }), cleanUp: drop };
  });
});

servers.describe("records in MongoDB", () => {
  let url: string;
  let handle: MongoHandle;
  let drop: () => Promise<void>;
  const opened: MongoRecordStore[] = [];
  beforeEach(async () => {
    ({ url, handle, drop } = await database());
  });
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    await drop();
  });
  const open = async (collection: Collection) => {
    const store = await MongoRecordStore.open(collection, { url });
    opened.push(store);
    return store;
  };
  const stored = () => handle.connection.collection("clip");
  const indexNames = async () => (await stored().indexes()).map(({ name }) => name).sort();

  test("indexes follow the declaration from start to start, and an operator's own stay", async () => {
    await open(clips);
    await stored().createIndex({ "doc.note": 1 }, { name: "by_hand" });
    await open(defineCollection({ ...clips, filters: {}, sorts: { kind: "text" }, search: [] }));
    expect(await indexNames()).toEqual([
      "_id_",
      "by_hand",
      "ix_createdAt__sort",
      "ix_kind__sort",
      "ix_updatedAt__sort",
    ]);
  });

  test.each<[string, Filter, string | undefined, string]>([
    ["one kind", { kind: "video" }, undefined, "ix_kind__filter"],
    ["one truth", { live: true }, undefined, "ix_live__filter"],
    ["one nested value", { "spec.codec": "av1" }, undefined, "ix_spec__codec__filter"],
    ["a range of numbers", { rank: { gte: 3, lt: 5 } }, undefined, "ix_rank__"],
    ["a span of time", { createdAt: { gte: 1, lt: 2 } }, undefined, "ix_createdAt__sort"],
    ["a search", {}, "日出", "ix_tokens"],
    ["a search by the beginning of a word", {}, "vlo", "ix_tokens"],
  ])("%s is found through its index", async (_, filter, search, index) => {
    const store = await open(clips);
    await store.insertMany(
      Array.from({ length: 300 }, (_, rank) => ({
        kind: `kind ${rank}`,
        live: rank === 7,
        rank,
        spec: { codec: `c${rank}` },
        title: `word${rank}`,
      })),
    );
    const query = mongoFilter(clips, parseFilter(clips, filter), search)!;
    const plan = await stored().find(query).limit(20).explain();
    expect(JSON.stringify(plan)).toContain(index);
  });

  test("a field that the schema does not know is an error in a query and in a record", async () => {
    await open(clips);
    const model = recordModel(handle.connection, clips);
    await expect(model.find({ verison: 1 })).rejects.toThrow(/"verison" is not in schema/);
    await expect(model.updateMany({}, { $set: { colour: 1 } })).rejects.toThrow(/colour/);
    await expect(
      model.insertMany([{ _id: "a", version: 1, doc: {}, colour: 1 } as never]),
    ).rejects.toThrow(/colour/);
  });

  test("while a cluster is upgraded an old node reads new records and overwrites none; a new one migrates old ones as it reads", async () => {
    const old = await open(clips);
    const second = defineCollection({
      ...clips,
      filters: { ...clips.filters, stars: "number" },
      schemaVersion: 2,
      migrations: { 2: (doc) => ({ ...doc, stars: 5 }) },
    });
    const updated = await open(second);
    const late = await old.insert({ title: "by an old node" });
    expect(await updated.get(late.id)).toMatchObject({ stars: 5, version: 1 });
    expect(await updated.updateIf(late.id, 1, { rank: 1 })).toMatchObject({ stars: 5, version: 2 });
    expect(await updated.count({ filter: { stars: 5 } })).toBe(1);
    expect(await old.get(late.id)).toMatchObject({ title: "by an old node", rank: 1 });
    await expect(old.updateIf(late.id, undefined, { rank: 2 })).rejects.toMatchObject({
      type: "UNAVAILABLE",
      message: expect.stringContaining("newer version"),
    });
  });

  test("a patch writes the fields that it names, not the whole record", async () => {
    const store = await open(clips);
    const { id } = await store.insert({ title: "日出", kind: "video", note: "x" });
    // As another program of the operator's may have done, without a new version.
    await stored().updateOne({ _id: id as never }, { $set: { "doc.extra": "kept" } });
    await store.updateIf(id, 1, { kind: null, rank: 3 });
    expect(await stored().findOne({ _id: id as never })).toMatchObject({
      doc: { title: "日出", note: "x", rank: 3, extra: "kept" },
    });
  });

  test("what takes more room in MongoDB than it may is refused, though its JSON is small enough", async () => {
    const store = await open(clips);
    const numbers = Array.from({ length: 1_500_000 }, () => 1);
    await expect(store.insert({ numbers })).rejects.toMatchObject({ type: "PAYLOAD_TOO_LARGE" });
    const { id } = await store.insert({ title: "small" });
    await expect(store.updateIf(id, 1, { numbers })).rejects.toMatchObject({
      type: "PAYLOAD_TOO_LARGE",
    });
    let deep: object = {};
    for (let level = 0; level < 120; level += 1) deep = { deep };
    await expect(store.insert({ deep })).rejects.toMatchObject({ type: "INVALID_INPUT" });
    expect(await store.count()).toBe(1);
  });
});

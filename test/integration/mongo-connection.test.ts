import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { acquireMongo } from "../../lib/mongo/connection.ts";
import { openRecords } from "../../lib/store/open-records.ts";
import { defineCollection, type RecordStore } from "../../lib/store/record-store.ts";
import { type CuttableLine, cuttableLine } from "../support/cuttable-line.ts";
import { serversForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const servers = await serversForTests("mongo");
const notes = defineCollection({ name: "note", filters: { kind: "text" }, search: ["text"] });

servers.describe("MongoDB that goes away", () => {
  let line: CuttableLine;
  let config: { DATA_DIR: string; MONGO_URL: string };
  let store: RecordStore;
  beforeEach(async () => {
    const url = new URL(servers.mongoUrl("away"));
    line = await cuttableLine(url);
    url.host = `127.0.0.1:${line.port}`;
    // A replica set would name the way around the line.
    url.searchParams.set("directConnection", "true");
    config = { DATA_DIR: "not used", MONGO_URL: url.href };
    store = await openRecords(config, notes);
  });
  afterEach(async () => {
    await line.mend();
    await store.close();
    await line.cut();
  });
  const states = () => dependenciesOf(config).list();
  const unavailable = { type: "UNAVAILABLE", message: expect.stringContaining("database") };

  test("cut off: every call answers UNAVAILABLE, the state is told, and it comes back by itself", async () => {
    const { id } = await store.insert({ kind: "a", text: "日出" });
    expect(states()).toMatchObject([{ name: "mongodb", state: "up", essential: true }]);
    await line.cut();
    await Promise.all([
      expect(store.get(id)).rejects.toMatchObject(unavailable),
      expect(store.list({ limit: 1 })).rejects.toMatchObject(unavailable),
      expect(store.count()).rejects.toMatchObject(unavailable),
      expect(store.insert({ kind: "b" })).rejects.toMatchObject(unavailable),
      expect(store.updateIf(id, 1, { kind: "b" })).rejects.toMatchObject(unavailable),
      expect(store.removeMany([id])).rejects.toMatchObject(unavailable),
      expect(store.clear()).rejects.toMatchObject(unavailable),
      expect(store.stream()[Symbol.asyncIterator]().next()).rejects.toMatchObject(unavailable),
    ]);
    await until(() => states()[0]?.state === "down", { what: "the state down" });
    await line.mend();
    expect(await store.get(id)).toMatchObject({ kind: "a", version: 1 });
    expect(await store.updateIf(id, 1, { kind: "b" })).toMatchObject({ version: 2 });
    await until(() => states()[0]?.state === "up", { what: "the state up" });
  });

  test("hanging: a call under way and a later one answer UNAVAILABLE, and it comes back by itself", async () => {
    const { id } = await store.insert({ kind: "a" });
    line.freeze();
    await expect(store.get(id)).rejects.toMatchObject(unavailable);
    await expect(store.insert({ kind: "b" })).rejects.toMatchObject(unavailable);
    await line.mend();
    expect(await store.get(id)).toMatchObject({ kind: "a" });
  });

  test("a store that is closed while the server is away closes, and leaves the list of states", async () => {
    await line.cut();
    await store.close();
    await store.close();
    expect(states()).toEqual([]);
  });
});

servers.describe("the connection to MongoDB", () => {
  test("is one for all who ask for an address, and closes with the last", async () => {
    const url = servers.mongoUrl("shared");
    const [one, two] = await Promise.all([acquireMongo(url), acquireMongo(url)]);
    expect(one.connection).toBe(two.connection);
    await one.release();
    await one.release();
    expect(await two.connection.db?.command({ ping: 1 })).toMatchObject({ ok: 1 });
    await two.release();
    expect(one.connection.readyState).toBe(0);
    const three = await acquireMongo(url);
    expect(await three.connection.db?.command({ ping: 1 })).toMatchObject({ ok: 1 });
    await three.release();
  });

  test("goes to the database in the address, reelmesh where it names none", async () => {
    const [named, unnamed] = [servers.mongoUrl("named"), new URL(servers.mongoUrl("named"))];
    unnamed.pathname = "";
    const handles = await Promise.all([acquireMongo(named), acquireMongo(unnamed.href)]);
    expect(handles.map(({ connection }) => connection.name)).toEqual([
      new URL(named).pathname.slice(1),
      "reelmesh",
    ]);
    await Promise.all(handles.map(({ release }) => release()));
  });

  test("with a wrong password is refused in a sentence without it", async () => {
    const url = new URL(servers.mongoUrl("password"));
    Object.assign(url, { username: "bob", password: "guess-work" });
    const refusal = await acquireMongo(url.href).catch((error: Error) => error.message);
    expect(refusal).toMatch(/^MONGO_URL: mongodb:\/\/[^@\s]+ refuses the user or password/);
  });
});

test.each([
  [
    "mongodb://bob:guess-work@127.0.0.1:1/x",
    /^MONGO_URL: no MongoDB server answers at mongodb:\/\/127\.0\.0\.1:1\/x \(connect ECONNREFUSED 127\.0\.0\.1:1\)\. Start it, or correct the address\.$/,
  ],
  [
    "mongodb://bob:guess-work@127.0.0.1/x?colour=red",
    /^MONGO_URL: .*option colour is not supported/,
  ],
  ["mongodb://bob:guess-work@127.0.0.1:99999/x", /^MONGO_URL: .*cannot be used as an address/],
  ["mongodb://bob:guess-work@127.0.0.1/%", /^MONGO_URL: .*cannot be used as an address/],
])(
  "an address that leads nowhere, %s, is one sentence, without the password",
  async (url, text) => {
    const config = { DATA_DIR: "not used", MONGO_URL: url };
    const refusal = await openRecords(config, notes).catch((error: Error) => error.message);
    expect(refusal).toMatch(text);
    expect(refusal).not.toMatch(/bob|guess-work|\n/);
    expect(dependenciesOf(config).list()).toEqual([]);
  },
);

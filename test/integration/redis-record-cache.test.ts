import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "@jest/globals";
import { ServiceBroker } from "moleculer";
import { z } from "zod";
import { brokerOptions } from "../../lib/broker-options.ts";
import { loadConfig } from "../../lib/config.ts";
import type { Actor } from "../../lib/contract.ts";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { openRecords } from "../../lib/store/open-records.ts";
import type { RecordStore } from "../../lib/store/record-store.ts";
import type { RecordService } from "../../mixins/records.mixin.ts";
import { defineResource } from "../../mixins/resource.ts";
import { implementResource } from "../../mixins/resource-service.ts";
import { cuttableLine } from "../support/cuttable-line.ts";
import { RedisServer } from "../support/redis-server.ts";
import { serversForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const servers = await serversForTests("nats");

const notes = defineResource({
  service: "test.note",
  about: "Notes",
  label: "note",
  path: "/test/note",
  cached: true,
  access: { read: ["member", "admin"], write: ["member", "admin"] },
  fields: z.object({ owner: z.string().default("admin:a"), text: z.string(), secret: z.string() }),
  filters: ["owner", "text"],
  internal: ["owner"],
  hidden: ["secret"],
  ownership: { field: "owner", realms: ["member"] },
});
let shown = 0;
const service = implementResource(notes, {
  hooks: {
    afterGet: (note) => {
      shown += 1;
      return { ...note, text: `${note.text} (shown ${shown})` };
    },
  },
});

let dir: string;
let redis: RedisServer;
let rounds = 0;
const ends: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(() => redis.stop());
beforeEach(async () => {
  rounds += 1;
  shown = 0;
  dir = await mkdtemp(join(tmpdir(), "reelmesh-cache-"));
  ends.push(() => rm(dir, { recursive: true, force: true }));
  await redis.restart();
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const admin: Actor = { realm: "admin", id: "a" };
const ann: Actor = { realm: "member", id: "ann" };
const bob: Actor = { realm: "member", id: "bob" };
type Note = { id: string; text: string; version: number };
type Page = { total: number; rows: Note[] };

interface Node {
  broker: ServiceBroker;
  state(): string | undefined;
  call<T>(
    action: string,
    params: object,
    options?: { actor?: Actor; at?: Node; past?: boolean },
  ): Promise<T>;
}

/** A node that hosts the notes; those of one test share a mesh, if it has one, and the file of the records. */
async function node(
  name: string,
  { url, alone = false }: { url?: string; alone?: boolean } = {},
): Promise<Node> {
  const { config } = loadConfig({
    DATA_DIR: dir,
    LOG_LEVEL: "fatal",
    NODE_ID: name,
    NAMESPACE: `${servers.prefix}-${rounds}`,
    ...(alone ? {} : { TRANSPORTER: servers.natsUrl }),
    ...(url === undefined ? {} : { REDIS_URL: url }),
  });
  const broker = new ServiceBroker(brokerOptions(config));
  broker.createService(service.schema({ config }));
  await broker.start();
  ends.push(() => broker.stop());
  const state = () => dependenciesOf(config).list()[0]?.state;
  if (url !== undefined) await until(() => state() === "up");
  return {
    broker,
    state,
    call: (action, params, { actor = admin, at, past } = {}) =>
      broker.call(`test.note.${action}`, params, {
        meta: { actor, ...(past ? { $cache: false } : {}) },
        ...(at ? { nodeID: at.broker.nodeID } : {}),
      }) as never,
  };
}

async function mesh(...places: ({ url?: string } | undefined)[]): Promise<Node[]> {
  const nodes: Node[] = [];
  for (const [index, place] of places.entries()) nodes.push(await node(`n${index}`, place));
  const known = (one: Node) =>
    one.broker.registry.nodes.toArray().filter(({ available }) => available).length;
  await until(() => nodes.every((one) => known(one) === nodes.length));
  return nodes;
}

/** The store behind a node's service, for changes that nobody is told of. */
async function silentStore(): Promise<RecordStore> {
  const store = await openRecords({ DATA_DIR: dir }, notes.collection);
  ends.push(() => store.close());
  return store;
}
const textOf = async (one: Node, id: string) =>
  (await one.call<Note>("get", { id })).text.replace(/ \(.*/, "");

/** A way to Redis that can be cut, while other nodes reach it. */
async function cuttable() {
  const way = await cuttableLine(new URL(redis.url));
  ends.push(() => way.cut());
  return way;
}

const kinds = [
  ["memory", () => undefined],
  ["Redis", () => redis.url],
] as const;

for (const [kind, url] of kinds)
  servers.describe(`cached records with ${kind}`, () => {
    test("a second read does not ask the store; a change through the service is seen at once", async () => {
      const one = await node("n", { url: url(), alone: true });
      const store = await silentStore();
      const { id } = await one.call<Note>("create", { text: "first", secret: "s" });
      expect([await textOf(one, id), (await one.call<Page>("list", {})).total]).toEqual([
        "first",
        1,
      ]);
      // An entry is put in place beside the answer, without waiting for it.
      await store.updateIf(id, undefined, { text: "behind its back" });
      expect(await textOf(one, id)).toBe("first");
      expect((await one.call<Page>("list", {})).rows[0]!.text).toBe("first");
      expect((await one.call<Note>("get", { id }, { past: true })).text).toMatch(/^behind/);
      await one.call("update", { id, text: "second" });
      expect(await textOf(one, id)).toBe("second");
      expect((await one.call<Page>("list", {})).rows[0]!.text).toBe("second");
      await one.call("remove", { id });
      await expect(one.call("get", { id })).rejects.toMatchObject({ type: "NOT_FOUND" });
      expect((await one.call<Page>("list", {})).total).toBe(0);
    });

    test("what a hook adds is not kept, what is hidden is not shown, no answer is shared between callers", async () => {
      const one = await node("n", { url: url(), alone: true });
      const { id } = await one.call<Note>("create", { text: "x", secret: "s" });
      const [first, second] = [
        await one.call<Note>("get", { id }),
        await one.call<Note>("get", { id }),
      ];
      expect([first.text, second.text]).toEqual(["x (shown 1)", "x (shown 2)"]);
      expect(second).not.toHaveProperty("secret");
      const page = await one.call<Page>("list", {});
      page.rows.length = 0;
      expect((await one.call<Page>("list", {})).rows).toHaveLength(1);
    });

    test("nobody gets from the cache what another may see", async () => {
      const one = await node("n", { url: url(), alone: true });
      const mine = await one.call<Note>("create", { text: "ann's", secret: "s" }, { actor: ann });
      for (const actor of [ann, admin, bob, ann, admin, bob]) {
        const sees = actor !== bob;
        const got = one.call<Note>("get", { id: mine.id }, { actor });
        if (sees) expect((await got).text).toMatch(/^ann's/);
        else await expect(got).rejects.toMatchObject({ type: "NOT_FOUND" });
        expect((await one.call<Page>("list", {}, { actor })).total).toBe(sees ? 1 : 0);
        // A filter on the owner does not lead around it.
        const filtered = await one.call<Page>("list", { owner: "member:ann" }, { actor });
        expect(filtered.total).toBe(sees ? 1 : 0);
      }
      await expect(one.broker.call("test.note.get", { id: mine.id })).rejects.toMatchObject({
        type: "UNAUTHENTICATED",
      });
    });

    test("parameters that look alike as text are told apart", async () => {
      const one = await node("n", { url: url(), alone: true });
      await one.call("create", { text: 'a"|b|"c', secret: "s" });
      expect((await one.call<Page>("list", { text: 'a"|b|"c' })).total).toBe(1);
      expect((await one.call<Page>("list", { text: "a", "text.ne": "c" })).total).toBe(0);
      expect((await one.call<Page>("list", { pageSize: 1 })).rows).toHaveLength(1);
    });

    test("an answer that was read before a change and comes after it is not kept", async () => {
      const one = await node("n", { url: url(), alone: true });
      const { id } = await one.call<Note>("create", { text: "old", secret: "s" });
      const { store } = (one.broker.getLocalService("test.note") as RecordService).adapter;
      const get = store.get.bind(store);
      let go = () => {};
      let held = 0;
      const hold = new Promise<void>((resolve) => {
        go = resolve;
      });
      store.get = async (wanted) => {
        const found = await get(wanted);
        held += 1;
        if (held === 1) await hold;
        return found;
      };
      const late = textOf(one, id);
      await until(() => held === 1);
      await one.call("update", { id, text: "new" });
      go();
      expect(await late).toBe("old");
      expect(await textOf(one, id)).toBe("new");
    });

    test("over NATS every node shows what any of them has answered", async () => {
      // Written differently, so that each has a connection of its own.
      const other = url() && `${url()}/0`;
      const [client, a, b] = (await mesh({}, { url: url() }, { url: other })) as [Node, Node, Node];
      const { id } = await client.call<Note>("create", { text: "0", secret: "s" }, { at: a });
      for (let n = 1; n <= 100; n += 1) {
        const [writer, reader] = n % 2 ? [a, b] : [b, a];
        // Both nodes have it in their cache before the change.
        await client.call("get", { id }, { at: reader });
        await client.call("list", {}, { at: reader });
        await client.call("update", { id, text: `${n}` }, { at: writer });
        const seen = await client.call<Note>("get", { id }, { at: reader });
        expect(seen.text).toMatch(new RegExp(`^${n} `));
        const page = await client.call<Page>("list", {}, { at: reader });
        expect(page.rows[0]!.text).toBe(`${n}`);
      }
    });
  });

servers.describe("cached records while Redis comes and goes", () => {
  test("reads and writes go on without an error through death, hanging and return", async () => {
    const one = await node("n", { url: redis.url, alone: true });
    const { id } = await one.call<Note>("create", { text: "0", secret: "s" });
    let n = 0;
    const rounds = async (count: number) => {
      for (let round = 0; round < count; round += 1) {
        n += 1;
        await one.call("update", { id, text: `${n}` });
        expect(await textOf(one, id)).toBe(`${n}`);
        expect(await textOf(one, id)).toBe(`${n}`);
      }
    };
    await rounds(20);
    await redis.kill();
    await rounds(20);
    expect(one.state()).toBe("down");
    await redis.restart();
    await until(async () => {
      await rounds(1);
      return one.state() === "up";
    });
    await rounds(20);
    await redis.freeze();
    await rounds(20);
    await redis.thaw();
    await until(async () => {
      await rounds(1);
      return one.state() === "up";
    });
    await rounds(20);
  });

  test("a change by a node that cannot reach Redis is not hidden by what others keep there", async () => {
    const way = await cuttable();
    const [client, a, b] = (await mesh({}, { url: way.url }, { url: redis.url })) as [
      Node,
      Node,
      Node,
    ];
    const { id } = await client.call<Note>("create", { text: "old", secret: "s" }, { at: a });
    const read = async (at: Node) => (await client.call<Note>("get", { id }, { at })).text;
    expect(await read(b)).toMatch(/^old/);
    await way.cut();
    await until(() => a.state() === "down");
    await client.call("update", { id, text: "new" }, { at: a });
    expect(await read(a)).toMatch(/^new/);
    expect(await read(b)).toMatch(/^new/);
    await way.mend();
    await until(() => a.state() === "up");
    expect(await read(a)).toMatch(/^new/);
    await client.call("update", { id, text: "newer" }, { at: a });
    expect(await read(b)).toMatch(/^newer/);
  });

  test("with all ways cut a change is told to Redis when its node is back", async () => {
    const way = await cuttable();
    // Two nodes that do not hear each other: no mesh between them.
    const a = await node("a", { url: way.url, alone: true });
    const b = await node("b", { url: redis.url, alone: true });
    const { id } = await a.call<Note>("create", { text: "old", secret: "s" });
    expect(await textOf(b, id)).toBe("old");
    await way.cut();
    await until(() => a.state() === "down");
    await a.call("update", { id, text: "new" });
    // Until then, for at most the life of an entry, the other one does not know.
    expect(await textOf(b, id)).toBe("old");
    await way.mend();
    await until(() => a.state() === "up");
    await until(async () => (await textOf(b, id)) === "new");
  });

  test("a node that starts while Redis is dead serves, and caches once it is there", async () => {
    await redis.kill();
    const { config } = loadConfig({ DATA_DIR: dir, LOG_LEVEL: "fatal", REDIS_URL: redis.url });
    const broker = new ServiceBroker(brokerOptions(config));
    broker.createService(service.schema({ config }));
    await broker.start();
    ends.push(() => broker.stop());
    const call = <T>(action: string, params: object) =>
      broker.call(`test.note.${action}`, params, { meta: { actor: admin } }) as Promise<T>;
    const { id } = await call<Note>("create", { text: "x", secret: "s" });
    expect((await call<Note>("get", { id })).text).toMatch(/^x/);
    await redis.restart();
    await until(() => dependenciesOf(config).list()[0]?.state === "up");
    const store = await silentStore();
    const text = async () => (await call<Note>("get", { id })).text.replace(/ \(.*/, "");
    let changes = 0;
    await until(async () => {
      const before = await text();
      changes += 1;
      await store.updateIf(id, undefined, { text: `behind its back ${changes}` });
      return (await text()) === before;
    });
  });
});

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { ServiceBroker } from "moleculer";
import { z } from "zod";
import { brokerOptions } from "../../lib/broker-options.ts";
import { loadConfig } from "../../lib/config.ts";
import { type Actor, routesOf } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import { defineResource } from "../../mixins/resource.ts";
import { implementResource } from "../../mixins/resource-service.ts";

const spec = {
  service: "test.note",
  about: "Notes",
  label: "note",
  path: "/test/note",
  access: { read: ["member", "admin"], write: ["member", "admin"] },
  fields: z.object({
    owner: z.string().default("admin"),
    text: z.string(),
    secret: z.string().optional(),
    place: z.string().default("here"),
    words: z.int().default(0),
  }),
  filters: ["owner", "words"],
  sorts: ["text"],
  immutable: ["place"],
  internal: ["owner", "words"],
  hidden: ["secret"],
  ownership: { field: "owner", realms: ["member"] },
} as const;
const notes = defineResource(spec);

const events: string[] = [];
const service = implementResource(notes, {
  hooks: {
    beforeCreate: (note) => {
      if (note.text === "spam") throw new AppError("FORBIDDEN", { reason: "no spam" });
      return { ...note, words: note.text.split(" ").length };
    },
    beforeUpdate: (patch, current) => {
      events.push(`update from ${current.text}`);
      const { text } = patch;
      return typeof text === "string" ? { ...patch, words: text.split(" ").length } : patch;
    },
    beforeRemove: (ids) => {
      events.push(`remove ${ids.length}`);
    },
    afterGet: (note) => ({ ...note, text: note.text.trim() }),
  },
});

let dir: string;
let broker: ServiceBroker;
const environment = () => {
  const { config } = loadConfig({ DATA_DIR: dir, LOG_LEVEL: "fatal", PORT: "0" });
  return { config };
};
beforeEach(async () => {
  events.length = 0;
  dir = await mkdtemp(join(tmpdir(), "reelmesh-resource-"));
  const env = environment();
  broker = new ServiceBroker(brokerOptions(env.config));
  broker.createService(service.schema(env));
  await broker.start();
});
afterEach(async () => {
  await broker.stop();
  await rm(dir, { recursive: true });
});

const ann: Actor = { realm: "member", id: "ann" };
const bob: Actor = { realm: "member", id: "bob" };
const admin: Actor = { realm: "admin", id: "root" };
// biome-ignore lint/suspicious/noExplicitAny: answers are checked field by field
const as = (actor: Actor, name: string, params: object): Promise<any> =>
  broker.call(`test.note.${name}`, params, { meta: { actor } } as never);

describe("a resource's ownership", () => {
  test("a record belongs to the member who made it, and to nobody else's lists", async () => {
    const note = await as(ann, "create", { text: "mine" });
    expect(note.owner).toBe("member:ann");
    await as(bob, "create", { text: "his" });
    expect((await as(ann, "list", {})).rows).toEqual([note]);
    expect((await as(ann, "list", { owner: "member:bob" })).rows).toEqual([note]);
    expect((await as(admin, "list", {})).total).toBe(2);
  });

  test("another member's record is answered like one that does not exist", async () => {
    const { id } = await as(ann, "create", { text: "mine" });
    for (const [name, params] of [
      ["get", { id }],
      ["read", { id }],
      ["update", { id, text: "stolen" }],
      ["remove", { id }],
    ] as const)
      await expect(as(bob, name, params)).rejects.toMatchObject({ type: "NOT_FOUND" });
    expect(await as(bob, "remove", { ids: [id] })).toEqual({ removed: 0, ids: [] });
    expect((await as(ann, "get", { id })).text).toBe("mine");
  });

  test("a member cannot give a record another owner", async () => {
    await expect(as(ann, "create", { text: "x", owner: "member:bob" })).rejects.toMatchObject({
      type: "INVALID_INPUT",
    });
  });
});

describe("a resource's fields", () => {
  test("hidden ones are stored but not shown", async () => {
    const note = await as(ann, "create", { text: "x", secret: "s" });
    expect(note).not.toHaveProperty("secret");
    for (const answer of [
      await as(ann, "get", { id: note.id }),
      (await as(ann, "list", {})).rows[0],
      await as(ann, "update", { id: note.id, text: "y" }),
    ])
      expect(answer).not.toHaveProperty("secret");
  });

  test("immutable and internal ones are refused in a change", async () => {
    const { id } = await as(ann, "create", { text: "x", place: "there" });
    for (const field of ["place", "words", "owner"])
      await expect(as(ann, "update", { id, [field]: "9" })).rejects.toMatchObject({
        type: "INVALID_INPUT",
        message: expect.stringContaining(field),
      });
  });

  test("a change does not bring back the defaults of fields that it leaves out", async () => {
    const { id } = await as(ann, "create", { text: "x", place: "there" });
    expect(await as(ann, "update", { id, text: "y" })).toMatchObject({ place: "there" });
  });

  test("null removes an optional field and is refused for one that must be there", async () => {
    const { id } = await as(ann, "create", { text: "x", secret: "s" });
    await as(ann, "update", { id, secret: null });
    await expect(as(ann, "update", { id, text: null })).rejects.toMatchObject({
      type: "INVALID_INPUT",
    });
  });
});

describe("a resource's hooks", () => {
  test("may complete, refuse and look on", async () => {
    const note = await as(ann, "create", { text: "two words " });
    expect(note.words).toBe(3);
    expect((await as(ann, "get", { id: note.id })).text).toBe("two words");
    expect((await as(ann, "update", { id: note.id, text: "one" })).words).toBe(1);
    await as(ann, "remove", { id: note.id });
    expect(events).toEqual(["update from two words ", "remove 1"]);
    await expect(as(ann, "create", { text: "spam" })).rejects.toMatchObject({ type: "FORBIDDEN" });
    expect((await as(admin, "list", {})).total).toBe(0);
  });
});

describe("a resource's service", () => {
  test("two services on one collection see each other's records", async () => {
    const twin = { ...notes, contract: { ...notes.contract, name: "test.twin" as const } };
    const schema = implementResource(twin as never).schema(environment());
    const other = broker.createService(schema);
    await broker.waitForServices("test.twin");
    const { id } = await as(ann, "create", { text: "shared" });
    const actor = { meta: { actor: ann } } as never;
    expect(await broker.call("test.twin.get", { id }, actor)).toMatchObject({ text: "shared" });
    await broker.destroyService(other);
    expect((await as(ann, "get", { id })).text).toBe("shared");
  });

  test("records of a newer version stop the node's start with a sentence, and stay as they are", async () => {
    const newer = defineResource({
      ...spec,
      schemaVersion: 2,
      migrations: { 2: (doc) => ({ ...doc, text: `${doc["text"]}!` }) },
    });
    const { id } = await as(ann, "create", { text: "old" });
    const restart = async (definition: typeof service) => {
      await broker.stop();
      const env = environment();
      broker = new ServiceBroker(brokerOptions(env.config));
      broker.createService(definition.schema(env));
      await broker.start();
    };
    await restart(implementResource(newer));
    expect((await as(ann, "get", { id })).text).toBe("old!");
    await expect(restart(service)).rejects.toThrow(/note records.*schema version 2.*up to 1/);
    await restart(implementResource(newer));
    expect((await as(ann, "get", { id })).text).toBe("old!");
  });

  test("only the route forms that it serves lead to it", () => {
    const readOnly = defineResource({ ...spec, serve: ["read"] });
    expect(routesOf([readOnly.contract]).map(({ method, path }) => `${method} ${path}`)).toEqual([
      "GET /test/note",
      "GET /test/note/{id}",
    ]);
    expect(readOnly.contract.actions.create.access).toEqual([]);
    expect(routesOf([notes.contract])).toHaveLength(7);
  });

  test("a declaration that names what is not there fails at once", () => {
    expect(() => defineResource({ ...spec, filters: ["owner", "nothing"] as never })).toThrow(
      /nothing/,
    );
    expect(() => defineResource({ ...spec, filters: [] })).toThrow(/owner must be among/);
  });
});

import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  type Collection,
  type Doc,
  defineCollection,
  type RecordStore,
  type StoredRecord,
} from "../../lib/store/record-store.ts";
import {
  clips,
  docArbitrary,
  filterArbitrary,
  searchArbitrary,
  sortArbitrary,
} from "./record-arbitraries.ts";
import { modelFilter, modelSearch, modelSort } from "./record-model.ts";

/** How a suite gets stores of an engine; each test starts with an empty place. */
export interface RecordStoreHarness {
  /** Opens a collection in the place of this test; again after `close` finds what was stored. */
  open(collection: Collection): Promise<RecordStore>;
  /** Removes the place of this test. */
  cleanUp(): Promise<void>;
}

/**
 * What every adapter of the record store port must do. Cases read only the port, never the engine.
 */
export function recordStoreSuite(name: string, harness: () => Promise<RecordStoreHarness>): void {
  describe(`record store on ${name}`, () => {
    let place: RecordStoreHarness;
    let store: RecordStore;
    beforeEach(async () => {
      place = await harness();
      store = await place.open(clips);
    });
    afterEach(async () => {
      await store.close();
      await place.cleanUp();
    });
    const reopen = async (collection: Collection) => {
      await store.close();
      store = await place.open(collection);
    };
    const ids = (rows: readonly StoredRecord[]) => rows.map(({ id }) => id);

    describe("records that are taken over", () => {
      const record = (id: string, more: object = {}) => ({
        id,
        version: 7,
        createdAt: 1_000,
        updatedAt: 2_000,
        title: `clip ${id}`,
        ...more,
      });

      test("keep id, version and times, and are listed, searched and changed like others", async () => {
        await store.restore([record("a", { kind: "video" }), record("b", { title: "日记" })]);
        expect(await store.get("a")).toEqual(record("a", { kind: "video" }));
        expect(ids((await store.list({ search: "日", limit: 10 })).rows)).toEqual(["b"]);
        expect(ids((await store.list({ filter: { kind: "video" }, limit: 10 })).rows)).toEqual([
          "a",
        ]);
        const changed = await store.updateIf("a", 7, { title: "next" });
        expect(changed).toMatchObject({ version: 8, createdAt: 1_000, title: "next" });
        await reopen(clips);
        expect(await store.get("b")).toEqual(record("b", { title: "日记" }));
      });

      test("replace what bears their id, words that are searched included; repeating changes nothing", async () => {
        await store.insert({ id: "a", title: "earlier words", kind: "audio" });
        for (let times = 0; times < 2; times += 1) await store.restore([record("a")]);
        expect(await store.count()).toBe(1);
        expect(await store.get("a")).toEqual(record("a"));
        expect(await store.count({ search: "earlier" })).toBe(0);
        expect(await store.count({ search: "clip" })).toBe(1);
        expect(await store.count({ filter: { kind: "audio" } })).toBe(0);
      });

      test("none are no call; more than the limit are refused", async () => {
        await store.restore([]);
        await expect(
          store.restore(Array.from({ length: 1_001 }, (_, n) => record(`${n}`))),
        ).rejects.toMatchObject({ type: "INVALID_INPUT" });
        expect(await store.count()).toBe(0);
      });
    });

    describe("single records", () => {
      test("a stored record is read as it was answered, also after the store was closed", async () => {
        const stored = await store.insert({ title: "日记", spec: { codec: null, sizes: [1, 2] } });
        expect(stored).toMatchObject({ version: 1, title: "日记" });
        expect(stored.createdAt).toBe(stored.updatedAt);
        expect(await store.get(stored.id)).toEqual(stored);
        await reopen(clips);
        expect(await store.get(stored.id)).toEqual(stored);
      });

      test("what is not there is undefined", async () => {
        expect(await store.get("nobody")).toBeUndefined();
      });

      test("fields of the envelope in a document are not taken over", async () => {
        const stored = await store.insert({ title: "a", version: 9, createdAt: 1 });
        expect(stored.version).toBe(1);
        expect(stored.createdAt).toBeGreaterThan(1);
      });

      test("null and absent are the same at the top level", async () => {
        const stored = await store.insert({ title: null, kind: "video" });
        expect(Object.hasOwn(stored, "title")).toBe(false);
        expect(await store.count({ filter: { kind: { exists: true } } })).toBe(1);
      });

      test("ids rise in the order of creation", async () => {
        const made: string[] = [];
        for (let n = 0; n < 50; n += 1) made.push((await store.insert({ rank: n })).id);
        expect([...made].sort()).toEqual(made);
      });

      test("an id that exists is refused and the first record stays", async () => {
        await store.insert({ id: "mine", title: "first" });
        await expect(store.insert({ id: "mine", title: "second" })).rejects.toMatchObject({
          type: "CONFLICT",
          message: expect.stringContaining("mine"),
        });
        expect((await store.get("mine"))?.["title"]).toBe("first");
      });

      test("of 20 inserts with one id exactly one wins", async () => {
        const results = await Promise.allSettled(
          Array.from({ length: 20 }, (_, rank) => store.insert({ id: "same", rank })),
        );
        expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      });

      test("a list of inserts is stored whole or not at all", async () => {
        await store.insert({ id: "taken" });
        await expect(store.insertMany([{ id: "new" }, { id: "taken" }])).rejects.toMatchObject({
          type: "CONFLICT",
        });
        expect(await store.count()).toBe(1);
        expect(ids(await store.insertMany([{ id: "x" }, { id: "y" }]))).toEqual(["x", "y"]);
      });

      test("of two lists that meet in one id at the same time one is stored, and nothing of the other", async () => {
        const other = await place.open(clips);
        const list = (name: string) => [
          ...Array.from({ length: 20 }, (_, n) => ({ id: `${name}${n}` })),
          { id: "same" },
        ];
        const results = await Promise.allSettled([
          store.insertMany(list("a")),
          other.insertMany(list("b")),
        ]);
        await other.close();
        const stored = ids((await store.list({ sort: "id", limit: 100 })).rows);
        const expected = results.flatMap((result) =>
          result.status === "fulfilled" ? ids(result.value) : [],
        );
        expect(stored).toEqual(expected.sort());
        expect(stored).toHaveLength(21);
      });

      test("a record that is too large is refused with the limit", async () => {
        await expect(store.insert({ note: "x".repeat(4 * 1024 * 1024) })).rejects.toMatchObject({
          type: "PAYLOAD_TOO_LARGE",
        });
        expect(await store.count()).toBe(0);
      });

      test("any JSON comes back as it was answered, whatever its fields are called", async () => {
        const odd = [
          "$set",
          "a.b",
          "",
          "%",
          "%24",
          "__proto__",
          "constructor",
          "_bsontype",
          "toJSON",
        ];
        const key = fc.oneof(
          fc.constantFrom(...odd, "doc", "id", "0", "_id", "length"),
          fc.string({ unit: "binary", maxLength: 5 }),
        );
        const value = fc.letrec((tie) => ({
          any: fc.oneof(
            { maxDepth: 4 },
            fc.constantFrom(
              null,
              true,
              -0,
              0.1,
              1e300,
              2 ** 53,
              -(2 ** 31),
              2 ** 31,
              "",
              "雨\u0000",
            ),
            fc.string({ unit: "binary" }),
            fc.array(tie("any"), { maxLength: 3 }),
            fc.dictionary(key, tie("any"), { maxKeys: 4, noNullPrototype: true }),
          ),
        })).any;
        const content = fc.dictionary(key, value, { maxKeys: 4, noNullPrototype: true });
        await fc.assert(
          fc.asyncProperty(content, content, async ({ id: _, ...doc }, { id: __, ...patch }) => {
            const stored = await store.insert(doc as Doc);
            expect(await store.get(stored.id)).toEqual(stored);
            const plain = JSON.parse(JSON.stringify(doc)) as Doc;
            for (const [field, given] of Object.entries(plain))
              if (given !== null) expect(stored[field]).toEqual(given);
            const changed = await store.updateIf(stored.id, 1, patch as Doc);
            expect(await store.get(stored.id)).toEqual(changed);
            for (const [field, given] of Object.entries(JSON.parse(JSON.stringify(patch)) as Doc))
              expect(changed[field]).toEqual(given === null ? undefined : given);
          }),
          { numRuns: 60, seed: 20261121 },
        );
      });

      test("a declared field of another kind is refused by name, and nothing is stored", async () => {
        const refused = (doc: Doc, text: string) =>
          expect(store.insert(doc)).rejects.toMatchObject({
            type: "INVALID_INPUT",
            message: expect.stringContaining(text),
          });
        await refused({ rank: "1" }, "rank: must be a number");
        await refused({ kind: ["video"] }, "kind: must be a string");
        await refused({ spec: { codec: 1 } }, "spec.codec: must be a string");
        await refused({ spec: [{ codec: "av1" }] }, "spec: must be an object");
        expect(await store.count()).toBe(0);
        const { id } = await store.insert({ rank: 1 });
        await expect(store.updateIf(id, 1, { rank: "2" })).rejects.toMatchObject({
          type: "INVALID_INPUT",
        });
      });

      test("a text far longer than an index entry may be is found by its whole length", async () => {
        const kind = "k".repeat(100_000);
        await store.insertMany([{ kind: `${kind}a` }, { id: "mine", kind: `${kind}b` }]);
        const { rows } = await store.list({ filter: { kind: `${kind}b` }, limit: 2 });
        expect(ids(rows)).toEqual(["mine"]);
      });

      test("many records come in the order of the ids that were asked for", async () => {
        await store.insertMany([{ id: "a" }, { id: "b" }, { id: "c" }]);
        expect(ids(await store.getMany(["c", "nobody", "a"]))).toEqual(["c", "a"]);
      });
    });

    describe("changes", () => {
      test("a patch sets its fields, removes those that are null, leaves the others", async () => {
        const { id, createdAt } = await store.insert({ title: "a", kind: "video", rank: 1 });
        const changed = await store.updateIf(id, 1, { title: "b", kind: null, rank: undefined });
        expect(changed).toMatchObject({ title: "b", rank: 1, version: 2, createdAt });
        expect(Object.hasOwn(changed, "kind")).toBe(false);
        expect(await store.get(id)).toEqual(changed);
      });

      test("nested objects are replaced, not merged", async () => {
        const { id } = await store.insert({ spec: { codec: "av1", size: 1 } });
        expect((await store.updateIf(id, undefined, { spec: { size: 2 } }))["spec"]).toEqual({
          size: 2,
        });
      });

      test("another version than the stored one is refused, naming both", async () => {
        const { id } = await store.insert({ rank: 1 });
        await store.updateIf(id, 1, { rank: 2 });
        await expect(store.updateIf(id, 1, { rank: 3 })).rejects.toMatchObject({
          type: "VERSION_CONFLICT",
          data: { actual: 2, expected: 1 },
        });
        expect((await store.get(id))?.["rank"]).toBe(2);
      });

      test("a record that is not there is NOT_FOUND", async () => {
        await expect(store.updateIf("nobody", undefined, {})).rejects.toMatchObject({
          type: "NOT_FOUND",
        });
      });

      test("of 30 changes to one version exactly one wins", async () => {
        const { id } = await store.insert({ rank: 0 });
        const results = await Promise.allSettled(
          Array.from({ length: 30 }, (_, rank) => store.updateIf(id, 1, { rank })),
        );
        expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      });

      test("30 concurrent changes that depend on what is stored lose none", async () => {
        const { id } = await store.insert({ rank: 0 });
        await Promise.all(
          Array.from({ length: 30 }, () =>
            store.updateIf(id, undefined, (current) => ({ rank: (current["rank"] as number) + 1 })),
          ),
        );
        expect(await store.get(id)).toMatchObject({ rank: 30, version: 31 });
      });

      test("two openings of one collection lose no change to each other", async () => {
        const other = await place.open(clips);
        const { id } = await store.insert({ rank: 0 });
        const add = (current: StoredRecord) => ({ rank: (current["rank"] as number) + 1 });
        await Promise.all(
          Array.from({ length: 20 }, (_, n) =>
            (n % 2 === 0 ? store : other).updateIf(id, undefined, add),
          ),
        );
        await other.close();
        expect(await store.get(id)).toMatchObject({ rank: 20, version: 21 });
      });

      test("a change that answers undefined leaves record and version as they are", async () => {
        const stored = await store.insert({ rank: 0 });
        expect(await store.updateIf(stored.id, undefined, () => undefined)).toEqual(stored);
      });
    });

    describe("removal", () => {
      test("removes what exists and answers which", async () => {
        await store.insertMany([{ id: "a" }, { id: "b" }, { id: "c" }]);
        expect(await store.removeMany(["a", "nobody", "c", "a"])).toEqual(["a", "c"]);
        expect(ids((await store.list({ limit: 10 })).rows)).toEqual(["b"]);
      });

      test("clear removes everything, full text too", async () => {
        await store.insertMany([{ title: "日记" }, { title: "日出" }]);
        expect(await store.clear()).toBe(2);
        expect(await store.count({ search: "日" })).toBe(0);
      });
    });

    describe("lists", () => {
      test("the newest come first unless told; a page is a window on the whole", async () => {
        for (let rank = 0; rank < 5; rank += 1) await store.insert({ rank });
        const page = await store.list({ limit: 2, offset: 1 });
        expect(page.rows.map((row) => row["rank"])).toEqual([3, 2]);
        expect(page.total).toBe(5);
      });

      test("unknown fields, operators and kinds are refused by name", async () => {
        const refused = (query: object, text: string) =>
          expect(store.list({ limit: 1, ...query })).rejects.toMatchObject({
            type: "INVALID_INPUT",
            message: expect.stringContaining(text),
          });
        await refused({ filter: { colour: "red" } }, "colour");
        await refused({ filter: { title: "sortable, not filterable" } }, "title");
        await refused({ filter: { kind: { like: "v%" } } }, "kind.like");
        await refused({ filter: { rank: "1" } }, "rank.eq");
        await refused({ filter: { kind: { $ne: null } } }, "kind.$ne");
        await refused({ filter: { rank: { in: [1, "2"] } } }, "rank.in");
        await refused({ filter: { constructor: "x" } }, "constructor");
        await refused({ sort: "kind" }, "kind");
        await refused({ limit: 100_000 }, "limit");
        await refused({ offset: -1 }, "offset");
      });

      test("a value that looks like the engine's language is only a value", async () => {
        await store.insert({ kind: "'; DROP TABLE r_clip; --" });
        expect(await store.count({ filter: { kind: "'; DROP TABLE r_clip; --" } })).toBe(1);
        expect(await store.count({ search: '" OR 1 NEAR( *' })).toBe(0);
      });

      test("filters, search, order and windows agree with a plain array", async () => {
        await fc.assert(
          fc.asyncProperty(
            fc.array(docArbitrary, { maxLength: 12 }),
            fc.array(fc.tuple(filterArbitrary, sortArbitrary, searchArbitrary), {
              minLength: 1,
              maxLength: 8,
            }),
            fc.nat(4),
            async (docs, queries, offset) => {
              await store.clear();
              const all = docs.length > 0 ? await store.insertMany(docs as Doc[]) : [];
              for (const [filter, sort, search] of queries) {
                const expected = modelSort(
                  modelSearch(clips, modelFilter(all, filter), search),
                  sort,
                );
                const { rows, total } = await store.list({
                  filter,
                  sort,
                  search,
                  offset,
                  limit: 5,
                });
                expect(ids(rows)).toEqual(ids(expected.slice(offset, offset + 5)));
                expect(total).toBe(expected.length);
                expect(await store.count({ filter, search })).toBe(expected.length);
              }
            },
          ),
          { numRuns: 60, seed: 20261121 },
        );
      });

      test("a stream gives every matching record once, by rising id, past one batch", async () => {
        await store.insertMany(
          Array.from({ length: 450 }, (_, n) => ({ kind: n % 2 === 0 ? "video" : "image" })),
        );
        const seen: string[] = [];
        for await (const { id } of store.stream({ kind: "video" })) seen.push(id);
        expect(seen).toHaveLength(225);
        expect([...new Set(seen)].sort()).toEqual(seen);
      });
    });

    describe("full text", () => {
      test("finds Chinese by one and by two characters, and only where they stand together", async () => {
        await store.insertMany([
          { id: "a", title: "雨夜街头" },
          { id: "b", title: "夜雨" },
        ]);
        const find = async (search: string) =>
          ids((await store.list({ search, sort: "id", limit: 9 })).rows);
        expect(await find("雨")).toEqual(["a", "b"]);
        expect(await find("雨夜")).toEqual(["a"]);
        expect(await find("街 雨")).toEqual(["a"]);
        expect(await find("晴")).toEqual([]);
      });

      test("follows changes and removals", async () => {
        const { id } = await store.insert({ title: "日出" });
        await store.updateIf(id, undefined, { title: "日落" });
        expect(await store.count({ search: "日出" })).toBe(0);
        expect(await store.count({ search: "日落" })).toBe(1);
        await store.removeMany([id]);
        expect(await store.count({ search: "日落" })).toBe(0);
      });

      test("a phrase does not run from one field into the next", async () => {
        await store.insert({ title: "日", note: "出" });
        expect(await store.count({ search: "日出" })).toBe(0);
        expect(await store.count({ search: "日 出" })).toBe(1);
      });
    });

    describe("schema versions", () => {
      const second = defineCollection({
        ...clips,
        filters: { ...clips.filters, stars: "number" },
        search: ["heading"],
        schemaVersion: 3,
        migrations: {
          2: ({ title, ...doc }) => ({ ...doc, heading: title }),
          3: (doc) => ({ ...doc, stars: 5 }),
        },
      });

      test("older documents go through every step at the start, past one batch", async () => {
        await store.insertMany(
          Array.from({ length: 450 }, (_, n) => ({ title: `标题 ${n}`, rank: n })),
        );
        await reopen(second);
        expect(await store.count({ filter: { stars: 5 } })).toBe(450);
        expect(await store.count({ search: "题" })).toBe(450);
        const { rows } = await store.list({ filter: { rank: 449 }, limit: 1 });
        expect(rows[0]).toMatchObject({ heading: "标题 449", stars: 5 });
        expect(Object.hasOwn(rows[0]!, "title")).toBe(false);
      });

      test("search follows what a migration did to a text", async () => {
        await store.insert({ title: "日出" });
        await reopen(
          defineCollection({
            ...clips,
            schemaVersion: 2,
            migrations: { 2: (doc) => ({ ...doc, title: "日落" }) },
          }),
        );
        expect(await store.count({ search: "日出" })).toBe(0);
        expect(await store.count({ search: "日落" })).toBe(1);
      });

      test("three starts at once migrate every document once", async () => {
        await store.insertMany(Array.from({ length: 450 }, (_, rank) => ({ title: "日出", rank })));
        await store.close();
        const counted = defineCollection({
          ...clips,
          filters: { steps: "number" },
          search: ["note"],
          schemaVersion: 2,
          migrations: {
            2: (doc) => ({ ...doc, note: "日落", steps: ((doc["steps"] as number) ?? 0) + 1 }),
          },
        });
        const opened = await Promise.all([1, 2, 3].map(() => place.open(counted)));
        const counts = await Promise.all(opened.map((one) => one.count({ filter: { steps: 1 } })));
        const found = await Promise.all(opened.map((one) => one.count({ search: "落" })));
        expect([counts, found]).toEqual([
          [450, 450, 450],
          [450, 450, 450],
        ]);
        store = opened[0]!;
        await Promise.all(opened.slice(1).map((one) => one.close()));
      });

      test("four first starts at once find an empty collection", async () => {
        const fresh = defineCollection({ ...clips, name: "fresh_clip" });
        const opened = await Promise.all([1, 2, 3, 4].map(() => place.open(fresh)));
        await Promise.all(opened.map((one, rank) => one.insert({ rank, title: "日" })));
        expect(await opened[0]!.count({ search: "日" })).toBe(4);
        await Promise.all(opened.map((one) => one.close()));
      });

      test("a second start migrates nothing again", async () => {
        const { id } = await store.insert({ title: "a" });
        await reopen(second);
        const once = await store.get(id);
        await reopen(second);
        expect(await store.get(id)).toEqual(once);
      });

      test("records of a newer version refuse to open, in a sentence with both versions", async () => {
        await reopen(second);
        await store.insert({ heading: "a" });
        await store.close();
        await expect(place.open(clips)).rejects.toThrow(
          /clip records.* have schema version 3, this program knows up to 1/,
        );
        store = await place.open(second);
        expect(await store.count()).toBe(1);
      });

      test("a step that throws stops the start, and a mended one goes on from there", async () => {
        await store.insertMany(Array.from({ length: 450 }, (_, rank) => ({ rank })));
        await store.close();
        const broken = defineCollection({
          ...clips,
          schemaVersion: 2,
          migrations: {
            2: (doc) => {
              if (doc["rank"] === 300) throw new Error("cannot read rank 300");
              return { ...doc, steps: ((doc["steps"] as number) ?? 0) + 1 };
            },
          },
        });
        await expect(place.open(broken)).rejects.toThrow("cannot read rank 300");
        store = await place.open(
          defineCollection({
            ...broken,
            filters: { steps: "number" },
            migrations: { 2: (doc) => ({ ...doc, steps: ((doc["steps"] as number) ?? 0) + 1 }) },
          }),
        );
        expect(await store.count({ filter: { steps: 1 } })).toBe(450);
      });
    });
  });
}

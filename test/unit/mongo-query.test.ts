import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { fromStored, storedKey, toStored } from "../../lib/store/mongo-content.ts";
import { mongoFilter, mongoIndexes, mongoPath, mongoSort } from "../../lib/store/mongo-query.ts";
import { parseFilter, parseSort } from "../../lib/store/record-query.ts";
import { defineCollection, type Filter } from "../../lib/store/record-store.ts";

const clips = defineCollection({
  name: "clip",
  filters: { kind: "text", rank: "number", "spec.codec": "text" },
  sorts: { title: "text" },
  search: ["title"],
});
const translate = (filter: Filter, search?: string) =>
  mongoFilter(clips, parseFilter(clips, filter), search);

describe("our filter language in MongoDB's", () => {
  test.each<[string, Filter, string | undefined, unknown]>([
    ["nothing asked", {}, undefined, {}],
    ["one value", { kind: "video" }, undefined, { "doc.kind": { $eq: "video" } }],
    [
      "the envelope",
      { id: "a", version: { gt: 1 } },
      undefined,
      { _id: { $eq: "a" }, version: { $gt: 1 } },
    ],
    [
      "a range is one range",
      { rank: { gt: 1, lte: 3 } },
      undefined,
      { "doc.rank": { $gt: 1, $lte: 3 } },
    ],
    [
      "absent is null",
      { "spec.codec": { exists: false } },
      undefined,
      { "doc.spec.codec": { $eq: null } },
    ],
    [
      "two tests in one operator stand apart",
      { kind: { ne: "video", exists: true } },
      undefined,
      { $and: [{ "doc.kind": { $ne: "video" } }, { "doc.kind": { $ne: null } }] },
    ],
    ["a character", {}, "雨", { tokens: { $all: ["雨"] } }],
    [
      "characters that stand together",
      {},
      "雨夜",
      { $and: [{ tokens: { $all: ["雨", "夜"] } }, { texts: { $regex: " 雨 夜 " } }] },
    ],
    ["the beginning of a word", {}, "vlo", { tokens: { $regex: "^vlo" } }],
    ["nothing but punctuation", {}, "?!", undefined],
    [
      "what looks like an expression",
      {},
      "a.*|$where",
      {
        $and: [
          { tokens: { $all: ["a"] } },
          { tokens: { $regex: "^where" } },
          { texts: { $regex: " a where" } },
        ],
      },
    ],
  ])("%s", (_, filter, search, expected) => {
    expect(translate(filter, search)).toEqual(expected);
  });

  test("an order ends with the id, in the direction of its last field", () => {
    expect(mongoSort(parseSort(clips, "title,-createdAt"))).toEqual([
      "doc.title",
      "-createdAt",
      "-_id",
    ]);
  });

  test("each filter's index goes on by time of creation, each order's by id", () => {
    expect(mongoIndexes(clips).map(({ key }) => Object.keys(key).join(" "))).toEqual([
      "createdAt _id",
      "updatedAt _id",
      "doc.kind createdAt _id",
      "doc.rank createdAt _id",
      "doc.spec.codec createdAt _id",
      "doc.title _id",
      "tokens",
    ]);
  });
});

describe("names of fields as MongoDB stores them", () => {
  test("none is an operator, a path or a type, and each comes back", () => {
    const key = fc.oneof(
      fc.constantFrom("$set", "a.b", "", "%", "%2E", "__proto__", "_bsontype", "constructor"),
      fc.string({ unit: "binary" }),
    );
    fc.assert(
      fc.property(key, fc.jsonValue(), (name, value) => {
        const stored = storedKey(name);
        expect(stored).not.toMatch(/^$|^\$|\.|\0|^(__proto__|_bsontype|constructor)$/);
        const plain = JSON.parse(JSON.stringify({ [name]: value })) as object;
        expect(fromStored(toStored(plain))).toEqual(plain);
      }),
      { seed: 20261121 },
    );
  });

  test("a filter looks where the content is, also under such a name", () => {
    expect(mongoPath("constructor")).toBe("doc.%63onstructor");
    expect(mongoPath("spec.codec")).toBe("doc.spec.codec");
  });
});

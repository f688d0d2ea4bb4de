import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { openRecords, recordsFile } from "../../lib/store/open-records.ts";
import { parseFilter, parseSort } from "../../lib/store/record-query.ts";
import { defineCollection, type Filter, type RecordStore } from "../../lib/store/record-store.ts";
import { orderSql, recordTable, whereSql } from "../../lib/store/sqlite-query.ts";

const clips = defineCollection({
  name: "clip",
  filters: { kind: "text", live: "boolean", "spec.codec": "text" },
  sorts: { title: "text" },
  search: ["title"],
});

let dir: string;
let store: RecordStore;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-plan-"));
  store = await openRecords({ DATA_DIR: dir }, clips);
});
afterEach(async () => {
  await store.close();
  await rm(dir, { recursive: true });
});

/** SQLite's own account of how it would answer a list. */
function planOf(filter: Filter, sort?: string, search?: string): string {
  const db = new DatabaseSync(recordsFile({ DATA_DIR: dir }), { readOnly: true });
  const where = whereSql(clips, parseFilter(clips, filter), search);
  const order = orderSql(parseSort(clips, sort));
  const sql = `SELECT doc FROM ${recordTable(clips)} WHERE ${where.text} ORDER BY ${order} LIMIT 20`;
  const rows = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...where.params) as { detail: string }[];
  db.close();
  return rows.map(({ detail }) => detail).join("\n");
}

describe("query plans of lists", () => {
  test.each([
    ["newest first", {}, undefined, "ix_clip__createdAt__sort"],
    ["by a declared field", {}, "title", "ix_clip__title__sort"],
    ["by a declared field, backwards", {}, "-title", "ix_clip__title__sort"],
    ["one kind, newest first", { kind: "video" }, undefined, "ix_clip__kind__filter"],
    ["one truth, newest first", { live: true }, undefined, "ix_clip__live__filter"],
    ["one nested value", { "spec.codec": "av1" }, undefined, "ix_clip__spec__codec__filter"],
    ["a span of time", { createdAt: { gte: 1, lt: 2 } }, undefined, "ix_clip__createdAt__sort"],
  ])("%s: an index answers, without sorting", (_, filter, sort, index) => {
    const plan = planOf(filter as Filter, sort);
    expect(plan).toContain(index);
    expect(plan).not.toMatch(/TEMP B-TREE|^SCAN r_clip$/m);
  });

  test("a choice of values uses the field's index", () => {
    expect(planOf({ kind: { in: ["video", "image"] } }, "id")).toMatch(
      /USING INDEX (ix_clip__kind__filter|sqlite_autoindex)/,
    );
  });

  test("a search goes through the full-text index", () => {
    expect(planOf({}, undefined, "日出")).toMatch(/f_clip VIRTUAL TABLE INDEX/);
  });
});

describe("collections", () => {
  test("two services with the same collection share one store, which closes with the second", async () => {
    const other = await openRecords({ DATA_DIR: dir }, clips);
    const { id } = await store.insert({ title: "a" });
    await store.close();
    await store.close();
    expect(await other.get(id)).toMatchObject({ title: "a" });
    await other.close();
    store = await openRecords({ DATA_DIR: dir }, clips);
    expect(await store.get(id)).toMatchObject({ title: "a" });
  });

  test("a second, different declaration of the same collection is refused", async () => {
    const other = defineCollection({ ...clips, sorts: { kind: "text" } });
    await expect(openRecords({ DATA_DIR: dir }, other)).rejects.toThrow(/clip is declared in two/);
  });

  test("indexes follow the declaration from start to start", async () => {
    await store.insert({ kind: "video" });
    await store.close();
    const changed = defineCollection({ ...clips, filters: {}, sorts: { kind: "text" } });
    store = await openRecords({ DATA_DIR: dir }, changed);
    const db = new DatabaseSync(recordsFile({ DATA_DIR: dir }), { readOnly: true });
    const names = db
      .prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'ix_clip%' ORDER BY name")
      .all()
      .map((row) => row["name"]);
    db.close();
    expect(names).toEqual([
      "ix_clip__createdAt__sort",
      "ix_clip__kind__sort",
      "ix_clip__updatedAt__sort",
    ]);
  });

  test.each([
    [{ name: "Bad Name" }, /no collection name/],
    [{ name: "ok", filters: { "a b": "text" as const } }, /cannot be used as a field/],
    [{ name: "ok", search: ["x'); --"] }, /cannot be used as a field/],
    [{ name: "ok", schemaVersion: 2 }, /no migration to version 2/],
  ])("a wrong declaration %j stops the start", (input, message) => {
    expect(() => defineCollection(input)).toThrow(message);
  });
});

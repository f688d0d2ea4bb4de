import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { Database } from "../../lib/sqlite/database.ts";

let dir: string;
let db: Database;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-db-"));
  db = await Database.open(join(dir, "t.sqlite"));
  await db.write([{ sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER NOT NULL)" }]);
});
afterEach(async () => {
  await db.close();
  await rm(dir, { recursive: true });
});

describe("database", () => {
  test("a guard that refuses undoes its whole unit and no other", async () => {
    const [refused, kept] = await Promise.all([
      db.write([
        { sql: "INSERT INTO t VALUES (1, 1)" },
        { sql: "UPDATE t SET v = 2 WHERE id = 99", mustChange: 1 },
      ]),
      db.write([{ sql: "INSERT INTO t VALUES (2, 2)" }]),
    ]);
    expect([refused.ok, kept.ok]).toEqual([false, true]);
    expect(db.all("SELECT id, v FROM t")).toEqual([{ id: 2, v: 2 }]);
  });

  test("a failing statement rejects its own unit only", async () => {
    const results = await Promise.allSettled([
      db.write([{ sql: "INSERT INTO t VALUES (1, 1)" }]),
      db.write([{ sql: "INSERT INTO t VALUES (1, 2)" }]),
      db.write([{ sql: "INSERT INTO t VALUES (3, 3)" }, { sql: "INSERT INTO t VALUES (4, NULL)" }]),
      db.write([{ sql: "INSERT INTO t VALUES (5, 5)" }]),
    ]);
    expect(results.map((result) => result.status)).toEqual([
      "fulfilled",
      "rejected",
      "rejected",
      "fulfilled",
    ]);
    expect(db.all("SELECT id FROM t ORDER BY id")).toEqual([{ id: 1 }, { id: 5 }]);
  });

  test("a unit that is undone after a part of it was written leaves those around it whole", async () => {
    const results = await Promise.allSettled([
      db.write([{ sql: "INSERT INTO t VALUES (1, 1)" }, { sql: "INSERT INTO t VALUES (2, 1)" }]),
      db.write([{ sql: "INSERT INTO t VALUES (3, 1)" }, { sql: "INSERT INTO nowhere VALUES (1)" }]),
      db.write([
        { sql: "INSERT INTO t VALUES (4, 1)" },
        { sql: "UPDATE t SET v = 9 WHERE id = 1", mustChange: 2 },
      ]),
      db.write([{ sql: "UPDATE t SET v = 8 WHERE id = 2", mustChange: 2 }]),
      db.write([{ sql: "UPDATE t SET v = 7 WHERE id = 1", mustChange: 1 }]),
    ]);
    expect(
      results.map((result) => (result.status === "fulfilled" ? result.value.ok : result.status)),
    ).toEqual([true, "rejected", false, false, true]);
    expect(db.all("SELECT id, v FROM t ORDER BY id")).toEqual([
      { id: 1, v: 7 },
      { id: 2, v: 1 },
    ]);
  });

  test("statements are told apart however many different ones there were", async () => {
    const writes = Array.from({ length: 1_200 }, (_, n) =>
      db.write([{ sql: `INSERT INTO t VALUES (${n}, ?)`, params: [2 * n] }]),
    );
    await Promise.all(writes);
    for (let n = 1_200; n < 1_900; n++)
      await db.write([{ sql: `INSERT INTO t VALUES (${n}, ?)`, params: [2 * n] }]);
    expect(db.get("SELECT count(*) AS n FROM t WHERE v = 2 * id")).toEqual({ n: 1_900 });
  });

  test("a value that cannot be stored rejects what it was given with, and the next write is as ever", async () => {
    const odd = (() => 1) as unknown as number;
    await expect(
      db.write([{ sql: "INSERT INTO t VALUES (?, 1)", params: [odd] }]),
    ).rejects.toThrow();
    await db.write([{ sql: "INSERT INTO t VALUES (?, 5)", params: [5] }]);
    expect(db.all("SELECT id, v FROM t")).toEqual([{ id: 5, v: 5 }]);
  });

  test("of 50 concurrent compare-and-sets exactly one wins", async () => {
    await db.write([{ sql: "INSERT INTO t VALUES (1, 0)" }]);
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        db.write([
          { sql: "UPDATE t SET v = ? WHERE id = 1 AND v = 0", params: [n + 1], mustChange: 1 },
        ]),
      ),
    );
    expect(results.filter((result) => result.ok)).toHaveLength(1);
  });

  test("close commits what was given before it", async () => {
    const writes = Array.from({ length: 200 }, (_, n) =>
      db.write([{ sql: "INSERT INTO t VALUES (?, 0)", params: [n] }]),
    );
    await db.close();
    expect((await Promise.all(writes)).every((result) => result.ok)).toBe(true);
    const again = await Database.open(join(dir, "t.sqlite"));
    expect(again.get("SELECT count(*) AS n FROM t")).toEqual({ n: 200 });
    await again.close();
  });
});

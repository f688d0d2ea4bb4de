import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { systemCall } from "../../lib/service.ts";
import { openRecords } from "../../lib/store/open-records.ts";
import { defineCollection } from "../../lib/store/record-store.ts";
import { startProduct } from "../support/product.ts";

const run = promisify(execFile);

let dir: string;
let dataDir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-backup-"));
  dataDir = join(dir, "data");
});
afterEach(() => rm(dir, { recursive: true }));

/** The command as an operator gives it: its output, and whether it ended well. */
const backup = (...args: string[]) => backupWith({}, ...args);
async function backupWith(
  settings: Record<string, string>,
  ...args: string[]
): Promise<{ ok: boolean; text: string }> {
  const env = { ...process.env, MONGO_URL: "", DATA_DIR: dataDir, INIT_CWD: dir, ...settings };
  try {
    const { stdout } = await run(process.execPath, ["scripts/backup.ts", ...args], { env });
    return { ok: true, text: stdout };
  } catch (error) {
    return { ok: false, text: (error as { stderr: string }).stderr };
  }
}

const start = (data: string) => startProduct({ DATA_DIR: data });
const notes = defineCollection({ name: "note" });
/** A data directory as the product leaves it, with one record; closed again. */
async function storeOne(): Promise<void> {
  const records = await openRecords({ DATA_DIR: dataDir }, notes);
  await records.insert({ text: "kept" });
  await records.close();
  await writeFile(join(dataDir, "secrets.json"), "{}", { mode: 0o600 });
}

describe("backup", () => {
  test("taken while writes go on, it restores every record that was answered before it began", async () => {
    const product = await start(dataDir);
    const call = systemCall(product.broker);
    const answered: string[] = [];
    let writing = true;
    const writer = (async () => {
      for (let n = 0; writing && n < 5_000; n += 1)
        answered.push((await call("aigc.storyboard.create", { title: `board ${n}` })).id);
    })();
    while (answered.length < 20) await new Promise((resolve) => setImmediate(resolve));
    const before = [...answered];
    const first = await backup("--to", "copy");
    const duringBackup = answered.length;
    writing = false;
    await writer;
    await product.stop();
    expect(first).toMatchObject({ ok: true });
    expect(duringBackup).toBeGreaterThan(before.length);

    const restoredDir = join(dir, "restored");
    await cp(join(dir, "copy"), restoredDir, {
      recursive: true,
      filter: (file) => !file.endsWith("manifest.json"),
    });
    const restored = await start(restoredDir);
    try {
      const asked = before.slice(0, 200);
      const { total } = await systemCall(restored.broker)("aigc.storyboard.list", {
        "id.in": asked,
      });
      expect(total).toBe(asked.length);
      // The same secrets came along: tokens of the old product still work.
      expect(restored.config.MCP_TOKEN).toBe(product.config.MCP_TOKEN);
      // And it can be searched and written to at once.
      const made = await systemCall(restored.broker)("aigc.storyboard.create", { title: "恢复后" });
      const found = await restored.request(
        "GET",
        `/aigc/admin/storyboard?search=${encodeURIComponent("恢复")}`,
        { token: restored.config.MCP_TOKEN },
      );
      expect(found.body.responseData.rows).toMatchObject([{ id: made.id }]);
    } finally {
      await restored.stop();
    }
  });

  test("its manifest names every file with size and hash, and nobody else may read it", async () => {
    await storeOne();
    await backup("--to", "copy");
    const manifest = JSON.parse(await readFile(join(dir, "copy", "manifest.json"), "utf8"));
    const names = manifest.files.map((file: { name: string }) => file.name);
    expect(names).toEqual(expect.arrayContaining(["records.sqlite", "secrets.json"]));
    expect((await readdir(join(dir, "copy"))).sort()).toEqual([...names, "manifest.json"].sort());
    for (const { name, bytes, sha256 } of manifest.files) {
      const info = await stat(join(dir, "copy", name));
      expect([name, info.size, info.mode & 0o077]).toEqual([name, bytes, 0]);
      expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    }
  });

  test("--check accepts an intact backup and names the file of a damaged one", async () => {
    await storeOne();
    await backup("--to", "copy");
    expect(await backup("--check", "copy")).toMatchObject({
      ok: true,
      text: expect.stringContaining("intact"),
    });
    const file = join(dir, "copy", "records.sqlite");
    await truncate(file, (await stat(file)).size - 4096);
    expect(await backup("--check", "copy")).toMatchObject({
      ok: false,
      text: expect.stringMatching(/records\.sqlite is not what was backed up/),
    });
  });

  test("a file as target takes the records alone", async () => {
    await storeOne();
    await backup("--to", "only.sqlite");
    await rm(dataDir, { recursive: true });
    await cp(join(dir, "only.sqlite"), join(dataDir, "records.sqlite"));
    const restored = await openRecords({ DATA_DIR: dataDir }, notes);
    const { rows } = await restored.list({ limit: 2 });
    await restored.close();
    expect(rows).toMatchObject([{ text: "kept" }]);
  });

  test("what cannot be done is said in one line, and nothing is left behind", async () => {
    expect(await backup("--to", "copy")).toMatchObject({
      ok: false,
      text: expect.stringMatching(/^backup: there are no databases in .*set DATA_DIR/),
    });
    await storeOne();
    await writeFile(join(dir, "taken"), "");
    expect((await backup("--to", "taken")).text).toMatch(/^backup: .*taken exists already/);
    expect((await backup("--to", "taken/below")).text).toMatch(/^backup: cannot write/);
    await writeFile(join(dataDir, "broken.sqlite"), "this is no database, but it ends like one");
    expect((await backup("--to", "copy")).text).toMatch(/^backup: .*\n$/);
    expect((await backup("--speed", "9")).text).toMatch(/^backup: Unknown option/);
    expect((await readdir(dir)).sort()).toEqual(["data", "taken"]);
  });

  test("with MONGO_URL it says how to copy the database, and copies the rest only when told to", async () => {
    await storeOne();
    const withMongo = (...args: string[]) =>
      backupWith({ MONGO_URL: "mongodb://bob:guess-work@db.example/media" }, ...args);
    for (const args of [[], ["--to", "copy.sqlite"], ["--to", "copy.sqlite", "--data-dir-only"]]) {
      const refused = await withMongo(...args);
      expect(refused.ok).toBe(false);
      expect(refused.text).toMatch(
        /^backup: MONGO_URL is set: [^\n]* mongodump --uri="\$MONGO_URL" --gzip [^\n]*--data-dir-only[^\n]*\n$/,
      );
      expect(refused.text).not.toContain("guess-work");
    }
    const unnamed = await backupWith({ MONGO_URL: "mongodb://db.example/?tls=true" });
    expect(unnamed.text).toContain('--uri="$MONGO_URL" --db=reelmesh');
    expect(await readdir(dir)).toEqual(["data"]);
    expect(await withMongo("--to", "copy", "--data-dir-only")).toMatchObject({ ok: true });
    expect(await readdir(join(dir, "copy"))).toContain("records.sqlite");
  });

  test("--help tells how to restore", async () => {
    expect((await backup("--help")).text).toContain("To restore: stop the product");
  });
});

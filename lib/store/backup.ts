import { createHash } from "node:crypto";
import { createReadStream, existsSync, readdirSync } from "node:fs";
import {
  chmod,
  copyFile,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { basename, join } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";

/** What a backup folder holds, so that it can be checked long after. */
export interface BackupManifest {
  format: 1;
  /** ISO time at which the backup began. */
  createdAt: string;
  files: {
    name: string;
    bytes: number;
    sha256: string /** Rows of each table. */;
    rows?: Record<string, number>;
  }[];
}

/** Something that the operator can put right; the message says how. */
export class BackupError extends Error {}

const MANIFEST = "manifest.json";
const SECRETS = "secrets.json";
/** All pages in one step: one snapshot, however much is written meanwhile; steps would start over at each write. */
const PAGES_PER_STEP = 2_147_483_647;

const databasesIn = (dir: string): string[] =>
  readdirSync(dir)
    .filter((name) => name.endsWith(".sqlite"))
    .sort();

async function sha256(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

async function syncFile(file: string): Promise<void> {
  const handle = await open(file, "r+");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Looks through a whole database file; answers the rows of its tables. */
function inspect(file: string): Record<string, number> {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true });
    const verdict = db.prepare("PRAGMA integrity_check(3)").all() as { integrity_check: string }[];
    if (verdict[0]?.integrity_check !== "ok")
      throw new Error(verdict.map((row) => row.integrity_check).join("; "));
    const tables = db
      .prepare(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
      )
      .all() as { name: string }[];
    return Object.fromEntries(
      tables.map(({ name }) => [
        name,
        (db!.prepare(`SELECT count(*) AS n FROM "${name}"`).get() as { n: number }).n,
      ]),
    );
  } catch (error) {
    throw new BackupError(`${file} is damaged: ${(error as Error).message}`);
  } finally {
    db?.close();
  }
}

async function copyDatabase(source: string, target: string): Promise<void> {
  const db = new DatabaseSync(source, { readOnly: true });
  try {
    db.exec("PRAGMA busy_timeout = 10000");
    await backup(db, target, { rate: PAGES_PER_STEP });
  } finally {
    db.close();
  }
  // One file that stands for itself, without the side files of a write-ahead log.
  const copy = new DatabaseSync(target);
  try {
    copy.exec("PRAGMA journal_mode = DELETE");
  } finally {
    copy.close();
  }
  await chmod(target, 0o600);
  await syncFile(target);
}

/**
 * Copies every database of a data directory, and its generated secrets, while the product runs. Each copy is one
 * moment of its database, checked page by page. The folder appears under its name only when it is complete.
 * @throws BackupError with what to do; then nothing is left behind.
 */
export async function backUp(dataDir: string, folder: string, now: Date): Promise<BackupManifest> {
  const names = existsSync(dataDir) ? databasesIn(dataDir) : [];
  if (names.length === 0)
    throw new BackupError(
      `there are no databases in ${dataDir}; set DATA_DIR to the directory that the product uses`,
    );
  if (existsSync(folder))
    throw new BackupError(`${folder} exists already; name a folder that does not`);
  const partial = `${folder}.${process.pid}.partial`;
  try {
    await mkdir(partial, { recursive: true, mode: 0o700 });
    const files: BackupManifest["files"] = [];
    for (const name of names) {
      const target = join(partial, name);
      await copyDatabase(join(dataDir, name), target);
      files.push({ ...(await describeFile(target)), rows: inspect(target) });
    }
    if (existsSync(join(dataDir, SECRETS))) {
      await copyFile(join(dataDir, SECRETS), join(partial, SECRETS));
      await chmod(join(partial, SECRETS), 0o600);
      files.push(await describeFile(join(partial, SECRETS)));
    }
    const manifest: BackupManifest = { format: 1, createdAt: now.toISOString(), files };
    const manifestFile = join(partial, MANIFEST);
    await writeFile(manifestFile, `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 });
    await syncFile(manifestFile);
    await rename(partial, folder);
    return manifest;
  } catch (error) {
    await rm(partial, { recursive: true, force: true }).catch(() => undefined);
    throw sentenceFor(error, folder);
  }
}

/**
 * Copies one database into one file.
 * @throws BackupError; a file that was there before stays as it was.
 */
export async function backUpFile(
  source: string,
  file: string,
): Promise<BackupManifest["files"][0]> {
  if (!existsSync(source)) throw new BackupError(`there is no ${source}; set DATA_DIR`);
  if (existsSync(file)) throw new BackupError(`${file} exists already; name a file that does not`);
  const partial = `${file}.${process.pid}.partial`;
  try {
    await copyDatabase(source, partial);
    const rows = inspect(partial);
    const described = await describeFile(partial);
    await rename(partial, file);
    return { ...described, name: basename(file), rows };
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined);
    throw sentenceFor(error, file);
  }
}

/**
 * Whether a backup is still what was written: sizes, hashes, and every page of its databases.
 * @throws BackupError naming the first file that is not.
 */
export async function checkBackup(folder: string): Promise<BackupManifest> {
  let manifest: BackupManifest;
  try {
    manifest = JSON.parse(await readFile(join(folder, MANIFEST), "utf8")) as BackupManifest;
  } catch (error) {
    throw new BackupError(`${folder} holds no readable ${MANIFEST}: ${(error as Error).message}`);
  }
  for (const { name, bytes, sha256: hash } of manifest.files) {
    const file = join(folder, basename(name));
    if (!existsSync(file)) throw new BackupError(`${file} is missing`);
    const found = await describeFile(file);
    if (found.bytes !== bytes || found.sha256 !== hash)
      throw new BackupError(`${file} is not what was backed up: its size or hash differs`);
    if (name.endsWith(".sqlite")) inspect(file);
  }
  return manifest;
}

const describeFile = async (file: string) => ({
  name: basename(file),
  bytes: (await stat(file)).size,
  sha256: await sha256(file),
});

function sentenceFor(error: unknown, target: string): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof BackupError) return error;
  if (code === "ENOSPC" || /disk is full|database or disk/i.test(message))
    return new BackupError(`there is no space left for ${target}`);
  return new BackupError(`cannot write ${target}: ${message}`);
}

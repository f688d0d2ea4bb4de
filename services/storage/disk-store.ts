import { createHash, randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError } from "../../lib/errors.ts";
import { acquireDatabase, type Database, releaseDatabase } from "../../lib/sqlite/database.ts";
import { syncDirectory } from "../../lib/sync-directory.ts";
import { storageLimits } from "./config.ts";
import type {
  ListPage,
  ListQuery,
  ObjectInfo,
  ObjectRef,
  ObjectStore,
  PutLimits,
  ReadOptions,
} from "./object-store.ts";
import { withinLimits } from "./object-store.ts";

interface ObjectRow {
  key: string;
  file: string;
  bytes: number;
  content_type: string;
  etag: string;
  modified_at: number;
}

const SCHEMA = [
  "CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, created_at INTEGER NOT NULL) WITHOUT ROWID",
  `CREATE TABLE IF NOT EXISTS objects (
     bucket TEXT NOT NULL, key TEXT NOT NULL, file TEXT NOT NULL, bytes INTEGER NOT NULL,
     content_type TEXT NOT NULL, etag TEXT NOT NULL, modified_at INTEGER NOT NULL,
     PRIMARY KEY (bucket, key)) WITHOUT ROWID`,
  // Files that belong to no object (any more, or yet): what a crash leaves is named here.
  "CREATE TABLE IF NOT EXISTS debris (file TEXT PRIMARY KEY, batch TEXT NOT NULL) WITHOUT ROWID",
  "CREATE INDEX IF NOT EXISTS debris_batch ON debris (batch)",
];

const SQLITE_FULL = 13;

/** Opens a new file for writing; replaced in tests to make a full disk. */
export type CreateFile = (path: string) => Promise<FileHandle>;

const createFile: CreateFile = (path) => open(path, "wx", 0o600);

/** What the operating system or SQLite says of a full disk, in our words; everything else is a storage failure. */
function translate(error: unknown): unknown {
  if (error instanceof AppError) return error;
  const { code, errcode } = error as { code?: string; errcode?: number };
  if (code === "ENOSPC" || code === "EDQUOT" || errcode === SQLITE_FULL)
    return new AppError("DISK_FULL", { where: "DATA_DIR" }, error);
  return error;
}

/** Smallest text, byte by byte, after every text that starts with the prefix. UTF-8 has no byte 255. */
function afterPrefix(prefix: string): Uint8Array {
  const bytes = Buffer.from(prefix);
  bytes[bytes.length - 1]! += 1;
  return bytes;
}

const ignoreMissing = (error: NodeJS.ErrnoException) => {
  if (error.code !== "ENOENT") throw error;
};

/**
 * Objects as files, their names in SQLite. A content gets a fresh file of its own; the row that points to it
 * is the moment at which it is seen. Each file is entered as debris before its first byte and struck off with
 * that row, so a start after a crash removes exactly what was left, without reading directories.
 */
export class DiskStore implements ObjectStore {
  readonly #db: Database;
  readonly #root: string;
  readonly #createFile: CreateFile;
  readonly #directories = new Set<string>();

  private constructor(db: Database, root: string, create: CreateFile) {
    this.#db = db;
    this.#root = root;
    this.#createFile = create;
  }

  static async open(dataDir: string, create: CreateFile = createFile): Promise<DiskStore> {
    const root = join(dataDir, "objects");
    await mkdir(root, { recursive: true, mode: 0o700 });
    const db = await acquireDatabase(join(dataDir, "objects.sqlite"));
    const store = new DiskStore(db, root, create);
    await db.write(SCHEMA.map((sql) => ({ sql })));
    await store.#clear(db.all<{ file: string }>("SELECT file FROM debris").map(({ file }) => file));
    return store;
  }

  async ensureBucket(bucket: string): Promise<void> {
    await this.#db.write([this.#bucketStatement(bucket)]);
  }

  /** All buckets, with the number and size of their objects. */
  sizes(): { bucket: string; objects: number; bytes: number }[] {
    return this.#db.all(
      "SELECT name AS bucket, count(key) AS objects, coalesce(sum(bytes), 0) AS bytes FROM buckets LEFT JOIN objects ON bucket = name GROUP BY name ORDER BY name",
    );
  }

  async put(
    { bucket, key, contentType }: ObjectRef & { contentType: string },
    source: AsyncIterable<Uint8Array | string>,
    limits?: PutLimits,
  ): Promise<ObjectInfo> {
    const batch = randomUUID();
    const file = join(bucket, batch.slice(0, 2), batch);
    try {
      await this.#db.write([
        { sql: "INSERT INTO debris (file, batch) VALUES (?, ?)", params: [file, batch] },
      ]);
      const { bytes, etag } = await this.#write(file, withinLimits(source, limits));
      const modifiedAt = Date.now();
      await this.#db.write([
        this.#bucketStatement(bucket),
        { sql: "DELETE FROM debris WHERE file = ?", params: [file] },
        {
          sql: "INSERT INTO debris (file, batch) SELECT file, ? FROM objects WHERE bucket = ? AND key = ?",
          params: [batch, bucket, key],
        },
        {
          sql: `INSERT INTO objects (bucket, key, file, bytes, content_type, etag, modified_at)
            VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (bucket, key) DO UPDATE SET file = excluded.file,
            bytes = excluded.bytes, content_type = excluded.content_type, etag = excluded.etag,
            modified_at = excluded.modified_at`,
          params: [bucket, key, file, bytes, contentType, etag, modifiedAt],
        },
      ]);
      await this.#clearBatch(batch);
      return { bucket, key, bytes, contentType, etag, modifiedAt };
    } catch (error) {
      // The database may be what has failed: then the entry stays, and the next start strikes it off.
      await this.#clearBatch(batch).catch(() => undefined);
      throw translate(error);
    }
  }

  async read(ref: ObjectRef, options: ReadOptions = {}): Promise<NodeJS.ReadableStream> {
    // The file of a row that is replaced meanwhile is gone; the row that replaced it is there.
    for (let attempt = 1; ; attempt += 1) {
      const row = this.#row(ref);
      if (options.etag !== undefined && options.etag !== row.etag)
        throw new AppError("OBJECT_CHANGED", { ...ref });
      try {
        const handle = await open(join(this.#root, row.file), "r");
        return handle.createReadStream({
          start: options.start ?? 0,
          end: Math.min(options.end ?? Number.POSITIVE_INFINITY, Math.max(row.bytes - 1, 0)),
        });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT" || attempt === 3) throw error;
      }
    }
  }

  async stat(ref: ObjectRef): Promise<ObjectInfo> {
    const row = this.#row(ref);
    return {
      ...ref,
      bytes: row.bytes,
      contentType: row.content_type,
      etag: row.etag,
      modifiedAt: row.modified_at,
    };
  }

  async remove({ bucket, key }: ObjectRef): Promise<void> {
    await this.#removeWhere("bucket = ? AND key = ?", [bucket, key]);
  }

  async removePrefix(bucket: string, prefix: string): Promise<number> {
    let removed = 0;
    for (;;) {
      const count = await this.#removeWhere(
        `bucket = ? AND key IN (SELECT key FROM objects WHERE bucket = ? AND key >= ?
           AND key < CAST(? AS TEXT) ORDER BY key LIMIT ${storageLimits.removeBatch})`,
        [bucket, bucket, prefix, afterPrefix(prefix)],
      );
      removed += count;
      if (count < storageLimits.removeBatch) return removed;
    }
  }

  async list({ bucket, prefix, delimiter, token, limit }: ListQuery): Promise<ListPage> {
    if (!this.#db.get("SELECT name FROM buckets WHERE name = ?", [bucket]))
      throw new AppError("BUCKET_NOT_FOUND", { bucket });
    const page: ListPage = { objects: [], folders: [] };
    // Inclusive lower bound; a folder that was listed is passed over as a whole.
    let from: string | Uint8Array = prefix;
    let last = token === undefined ? undefined : Buffer.from(token, "base64url").toString();
    if (last !== undefined) from = this.#past(last, prefix, delimiter);
    for (let count = 0; ; count += 1) {
      const row = this.#db.get<ObjectRow>(
        "SELECT * FROM objects WHERE bucket = ? AND key >= CAST(? AS TEXT) ORDER BY key LIMIT 1",
        [bucket, from],
      );
      if (!row?.key.startsWith(prefix)) return page;
      if (count === limit) {
        page.next = Buffer.from(last ?? "").toString("base64url");
        return page;
      }
      const cut = delimiter === "" ? -1 : row.key.indexOf(delimiter, prefix.length);
      if (cut >= 0) {
        last = row.key.slice(0, cut + delimiter.length);
        page.folders.push(last);
      } else {
        last = row.key;
        page.objects.push({
          bucket,
          key: row.key,
          bytes: row.bytes,
          etag: row.etag,
          modifiedAt: row.modified_at,
        });
      }
      from = this.#past(last, prefix, delimiter);
    }
  }

  async close(): Promise<void> {
    await releaseDatabase(this.#db.path);
  }

  /** Where a listing goes on after an entry: behind a folder, or at the next possible key. */
  #past(entry: string, prefix: string, delimiter: string): string | Uint8Array {
    const isFolder = delimiter !== "" && entry.endsWith(delimiter) && entry.length > prefix.length;
    return isFolder ? afterPrefix(entry) : `${entry}\0`;
  }

  #bucketStatement(bucket: string) {
    return {
      sql: "INSERT OR IGNORE INTO buckets (name, created_at) VALUES (?, ?)",
      params: [bucket, Date.now()],
    };
  }

  #row({ bucket, key }: ObjectRef): ObjectRow {
    const row = this.#db.get<ObjectRow>("SELECT * FROM objects WHERE bucket = ? AND key = ?", [
      bucket,
      key,
    ]);
    if (!row) throw new AppError("OBJECT_NOT_FOUND", { bucket, key });
    return row;
  }

  async #write(file: string, source: AsyncIterable<Uint8Array>) {
    const path = join(this.#root, file);
    await this.#makeDirectory(dirname(path));
    const handle = await this.#createFile(path);
    const hash = createHash("md5");
    let bytes = 0;
    try {
      for await (const chunk of source) {
        hash.update(chunk);
        bytes += chunk.byteLength;
        for (let at = 0; at < chunk.byteLength; )
          at += (await handle.write(chunk, at, chunk.byteLength - at)).bytesWritten;
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    await syncDirectory(dirname(path));
    return { bytes, etag: hash.digest("hex") };
  }

  async #makeDirectory(path: string): Promise<void> {
    if (this.#directories.has(path)) return;
    await mkdir(path, { recursive: true, mode: 0o700 });
    await syncDirectory(dirname(path));
    if (this.#directories.size >= 10_000) this.#directories.clear();
    this.#directories.add(path);
  }

  /** Takes rows away and turns their files into debris in one unit, then removes the files. */
  async #removeWhere(where: string, params: readonly (string | Uint8Array)[]): Promise<number> {
    const batch = randomUUID();
    try {
      const { changes } = await this.#db.write([
        {
          sql: `INSERT INTO debris (file, batch) SELECT file, ? FROM objects WHERE ${where}`,
          params: [batch, ...params],
        },
        { sql: `DELETE FROM objects WHERE ${where}`, params: [...params] },
      ]);
      await this.#clearBatch(batch);
      return changes[1] ?? 0;
    } catch (error) {
      throw translate(error);
    }
  }

  async #clearBatch(batch: string): Promise<void> {
    const rows = this.#db.all<{ file: string }>("SELECT file FROM debris WHERE batch = ?", [batch]);
    await this.#clear(rows.map(({ file }) => file));
  }

  async #clear(files: readonly string[]): Promise<void> {
    if (files.length === 0) return;
    for (const file of files) await unlink(join(this.#root, file)).catch(ignoreMissing);
    await this.#db.write(
      files.map((file) => ({ sql: "DELETE FROM debris WHERE file = ?", params: [file] })),
    );
  }
}

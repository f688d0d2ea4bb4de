import { AppError } from "../errors.ts";
import {
  acquireDatabase,
  type Database,
  releaseDatabase,
  type Statement,
} from "../sqlite/database.ts";
import { ChangeQueue } from "./change-queue.ts";
import { changeGuarded, idsToRemove, refuseTooMany } from "./guarded-change.ts";
import { contentOf } from "./record-content.ts";
import { idMaker } from "./record-id.ts";
import { parseFilter, parseSort, parseWindow } from "./record-query.ts";
import {
  type Collection,
  type Doc,
  type Filter,
  type ListQuery,
  limits,
  type Patch,
  type PatchFrom,
  type RecordStore,
  type StoredRecord,
} from "./record-store.ts";
import { orderSql, recordTable, whereSql } from "./sqlite-query.ts";
import { indexTextStatements, prepareCollection, unindexTextStatements } from "./sqlite-schema.ts";

interface Row {
  id: string;
  version: number;
  created_at: number;
  updated_at: number;
  doc: string;
}

const COLUMNS = "id, version, created_at, updated_at, doc";
/** Writers of another process may come first; more often than this in a row they do not. */
const UPDATE_TRIES_MAX = 20;

export interface SqliteRecordStoreOptions {
  /** The SQLite file; collections of one process share its connections. */
  path: string;
  now?: () => number;
}

/** Records of one collection in SQLite: JSON documents, expression indexes, FTS5. */
export class SqliteRecordStore<D extends Doc = Doc> implements RecordStore<D> {
  readonly collection: Collection;
  readonly #path: string;
  readonly #db: Database;
  readonly #table: string;
  readonly #now: () => number;
  readonly #nextId = idMaker();
  readonly #changes = new ChangeQueue();
  #closed: Promise<void> | undefined;

  private constructor(collection: Collection, db: Database, options: SqliteRecordStoreOptions) {
    this.collection = collection;
    this.#path = options.path;
    this.#db = db;
    this.#table = recordTable(collection);
    this.#now = options.now ?? Date.now;
  }

  static async open<D extends Doc>(
    collection: Collection,
    options: SqliteRecordStoreOptions,
  ): Promise<SqliteRecordStore<D>> {
    const db = await acquireDatabase(options.path);
    try {
      await prepareCollection(db, collection);
      return new SqliteRecordStore<D>(collection, db, options);
    } catch (error) {
      await releaseDatabase(options.path);
      throw error;
    }
  }

  async get(id: string): Promise<StoredRecord<D> | undefined> {
    const row = this.#db.get<Row>(`SELECT ${COLUMNS} FROM ${this.#table} WHERE id = ?`, [id]);
    return row && this.#record(row);
  }

  async getMany(ids: readonly string[]): Promise<StoredRecord<D>[]> {
    const rows = this.#db.all<Row>(
      `SELECT ${COLUMNS} FROM ${this.#table} WHERE id IN (SELECT value FROM json_each(?))`,
      [JSON.stringify(ids)],
    );
    const byId = new Map(rows.map((row) => [row.id, row]));
    return ids.flatMap((id) => {
      const row = byId.get(id);
      return row ? [this.#record(row)] : [];
    });
  }

  async list(query: ListQuery): Promise<{ rows: StoredRecord<D>[]; total: number }> {
    const where = this.#where(query);
    const order = orderSql(parseSort(this.collection, query.sort));
    const { offset, limit } = parseWindow(query);
    const rows = this.#db.all<Row>(
      `SELECT ${COLUMNS} FROM ${this.#table} WHERE ${where.text} ORDER BY ${order} LIMIT ? OFFSET ?`,
      [...where.params, limit, offset],
    );
    return { rows: rows.map((row) => this.#record(row)), total: this.#count(where) };
  }

  async count(query: Pick<ListQuery, "filter" | "search"> = {}): Promise<number> {
    return this.#count(this.#where(query));
  }

  async insert(doc: D & { id?: string }): Promise<StoredRecord<D>> {
    const [record] = await this.insertMany([doc]);
    return record!;
  }

  async insertMany(docs: readonly (D & { id?: string })[]): Promise<StoredRecord<D>[]> {
    refuseTooMany(docs.length);
    const now = this.#now();
    const made = docs.map((input) => {
      const { content, text } = contentOf(this.collection, input);
      const id = input.id ?? this.#nextId(now);
      const record = { ...content, id, version: 1, createdAt: now, updatedAt: now };
      return { record: record as unknown as StoredRecord<D>, content, text };
    });
    const result = await this.#db.write(
      made.flatMap(({ record, content, text }): Statement[] => [
        {
          sql: `INSERT INTO ${this.#table} (id, version, schema_version, created_at, updated_at, doc) VALUES (?, 1, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
          params: [record.id, this.collection.schemaVersion, now, now, text],
          mustChange: 1,
        },
        ...indexTextStatements(this.collection, record.id, content),
      ]),
    );
    if (!result.ok) {
      const taken = made.find(({ record }) => this.#row(record.id))?.record.id;
      throw new AppError("CONFLICT", {
        reason: `${this.collection.label} ${taken ?? "with this id"} exists already`,
      });
    }
    return made.map(({ record }) => record);
  }

  updateIf(
    id: string,
    expectedVersion: number | undefined,
    patch: Patch | PatchFrom<D>,
  ): Promise<StoredRecord<D>> {
    return this.#changes.run(id, () =>
      changeGuarded<D, Row>({
        what: `${this.collection.label} ${id}`,
        expectedVersion,
        patch,
        triesMax: UPDATE_TRIES_MAX,
        read: () => this.#row(id),
        recordOf: (row) => this.#record(row),
        save: (row, current, set) => this.#save(row, current, set),
      }),
    );
  }

  async removeMany(ids: readonly string[]): Promise<string[]> {
    const unique = idsToRemove(ids);
    const results = await Promise.all(
      unique.map((id) =>
        this.#db.write([
          ...unindexTextStatements(this.collection, id),
          { sql: `DELETE FROM ${this.#table} WHERE id = ?`, params: [id], mustChange: 1 },
        ]),
      ),
    );
    return unique.filter((_, n) => results[n]!.ok);
  }

  async restore(records: readonly StoredRecord<D>[]): Promise<void> {
    refuseTooMany(records.length);
    if (records.length === 0) return;
    await this.#db.write(
      records.flatMap((record): Statement[] => {
        const { content, text } = contentOf(this.collection, record);
        const { id, version, createdAt, updatedAt } = record;
        return [
          {
            sql: `INSERT INTO ${this.#table} (id, version, schema_version, created_at, updated_at, doc) VALUES (?, ?, ?, ?, ?, ?)
              ON CONFLICT (id) DO UPDATE SET version = excluded.version, schema_version = excluded.schema_version,
              created_at = excluded.created_at, updated_at = excluded.updated_at, doc = excluded.doc`,
            params: [id, version, this.collection.schemaVersion, createdAt, updatedAt, text],
          },
          ...indexTextStatements(this.collection, id, content),
        ];
      }),
    );
  }

  async clear(): Promise<number> {
    let removed = 0;
    while (true) {
      const rows = this.#db.all<{ id: string }>(
        `SELECT id FROM ${this.#table} LIMIT ${limits.removeManyMax}`,
      );
      if (rows.length === 0) return removed;
      removed += (await this.removeMany(rows.map((row) => row.id))).length;
    }
  }

  async *stream(filter?: Filter): AsyncIterable<StoredRecord<D>> {
    const where = this.#where({ filter });
    let after = "";
    while (true) {
      const rows = this.#db.all<Row>(
        `SELECT ${COLUMNS} FROM ${this.#table} WHERE ${where.text} AND id > ? ORDER BY id LIMIT ${limits.batchRows}`,
        [...where.params, after],
      );
      for (const row of rows) yield this.#record(row);
      if (rows.length < limits.batchRows) return;
      after = rows.at(-1)!.id;
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#changes.settled().then(() => releaseDatabase(this.#path));
    return this.#closed;
  }

  /** @returns undefined when the record is no longer as it was read. */
  async #save(
    row: Row,
    current: StoredRecord<D>,
    set: Patch,
  ): Promise<StoredRecord<D> | undefined> {
    const { id } = row;
    const { content, text } = contentOf(this.collection, { ...current, ...set });
    const updatedAt = Math.max(this.#now(), row.updated_at);
    const version = row.version + 1;
    const { ok } = await this.#db.write([
      {
        sql: `UPDATE ${this.#table} SET doc = ?, version = ?, schema_version = ?, updated_at = ? WHERE id = ? AND version = ?`,
        params: [text, version, this.collection.schemaVersion, updatedAt, id, row.version],
        mustChange: 1,
      },
      ...indexTextStatements(this.collection, id, content),
    ]);
    const meta = { id, version, createdAt: row.created_at, updatedAt };
    return ok ? ({ ...content, ...meta } as unknown as StoredRecord<D>) : undefined;
  }

  #row(id: string): Row | undefined {
    return this.#db.get<Row>(`SELECT ${COLUMNS} FROM ${this.#table} WHERE id = ?`, [id]);
  }

  #where({ filter, search }: Pick<ListQuery, "filter" | "search">) {
    return whereSql(this.collection, parseFilter(this.collection, filter), search);
  }

  #count(where: { text: string; params: (string | number)[] | unknown[] }): number {
    return this.#db.get<{ n: number }>(
      `SELECT count(*) AS n FROM ${this.#table} WHERE ${where.text}`,
      where.params as never[],
    )!.n;
  }

  #record(row: Row): StoredRecord<D> {
    return {
      ...(JSON.parse(row.doc) as D),
      id: row.id,
      version: row.version,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    };
  }
}

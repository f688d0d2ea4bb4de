import mongoose from "mongoose";
import type { DependencyReporter } from "../dependency-state.ts";
import { AppError } from "../errors.ts";
import { isDuplicateKey, mongoStartFailure, overMongo } from "../mongo/mongo-errors.ts";
import { ChangeQueue } from "./change-queue.ts";
import { changeGuarded, idsToRemove, refuseTooMany } from "./guarded-change.ts";
import { SharedMongooseAdapter } from "./mongo-adapter.ts";
import { storedKey, toStored } from "./mongo-content.ts";
import { type MongoFilter, mongoFilter, mongoSort } from "./mongo-query.ts";
import {
  contentOfRow,
  type MongoRow,
  prepareMongoCollection,
  recordModel,
  searchParts,
} from "./mongo-schema.ts";
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

const { calculateObjectSize } = mongoose.mongo.BSON;

/** Writers of other nodes may come first; more often than this in a row they do not. */
const UPDATE_TRIES_MAX = 50;
/** Of one long removal; other callers need connections too. */
const REMOVALS_AT_ONCE = 25;
/** MongoDB takes documents of 16 MiB, search tokens included; some room is left for the envelope. */
const STORED_BYTES_MAX = 15.5 * 1024 * 1024;
/** What lists and single reads do not need to carry. */
const withoutSearch = { tokens: 0, texts: 0 } as const;

export interface MongoRecordStoreOptions {
  url: string;
  now?: () => number;
  /** Told when the server goes and comes. */
  reporter?: DependencyReporter;
}

/** Records of one collection in MongoDB. Single-document writes only: no transactions, no change streams. */
export class MongoRecordStore<D extends Doc = Doc> implements RecordStore<D> {
  readonly collection: Collection;
  readonly #adapter: SharedMongooseAdapter;
  readonly #now: () => number;
  readonly #nextId = idMaker();
  readonly #changes = new ChangeQueue();
  #closed: Promise<void> | undefined;

  private constructor(collection: Collection, adapter: SharedMongooseAdapter, now: () => number) {
    this.collection = collection;
    this.#adapter = adapter;
    this.#now = now;
  }

  /** @throws ConfigError in one sentence that names MONGO_URL when the server cannot be used. */
  static async open<D extends Doc>(
    collection: Collection,
    { url, now = Date.now, reporter }: MongoRecordStoreOptions,
  ): Promise<MongoRecordStore<D>> {
    const adapter = new SharedMongooseAdapter(
      url,
      (connection) => recordModel(connection, collection),
      reporter,
    );
    await adapter.connect();
    try {
      await prepareMongoCollection(adapter.connection, collection);
      return new MongoRecordStore<D>(collection, adapter, now);
    } catch (error) {
      await adapter.disconnect();
      throw mongoStartFailure(url, error);
    }
  }

  async get(id: string): Promise<StoredRecord<D> | undefined> {
    const row = await this.#row(id);
    return row && this.#record(row);
  }

  async getMany(ids: readonly string[]): Promise<StoredRecord<D>[]> {
    const rows = await this.#find({ query: { _id: { $in: [...new Set(ids)] } } });
    const byId = new Map(rows.map((row) => [row._id, row]));
    return ids.flatMap((id) => {
      const row = byId.get(id);
      return row ? [this.#record(row)] : [];
    });
  }

  async list(query: ListQuery): Promise<{ rows: StoredRecord<D>[]; total: number }> {
    const filter = this.#filter(query);
    const sort = mongoSort(parseSort(this.collection, query.sort));
    const { offset, limit } = parseWindow(query);
    if (!filter) return { rows: [], total: 0 };
    // To mongoose a limit of 0 means none.
    const found = limit === 0 ? [] : await this.#find({ query: filter, sort, offset, limit });
    const rows = found.map((row) => this.#record(row));
    // A page that is not full ends the list: its total is known without counting.
    const isLast = rows.length < limit && (rows.length > 0 || offset === 0);
    return { rows, total: isLast ? offset + rows.length : await this.#count(filter) };
  }

  async count(query: Pick<ListQuery, "filter" | "search"> = {}): Promise<number> {
    const filter = this.#filter(query);
    return filter ? this.#count(filter) : 0;
  }

  async insert(doc: D & { id?: string }): Promise<StoredRecord<D>> {
    const [record] = await this.insertMany([doc]);
    return record!;
  }

  async insertMany(docs: readonly (D & { id?: string })[]): Promise<StoredRecord<D>[]> {
    refuseTooMany(docs.length);
    const now = this.#now();
    const rows = docs.map((doc) => this.#newRow(doc, now));
    if (rows.length > 1) await this.#refuseTaken(rows.map((row) => row._id));
    await overMongo(() => this.#insert(rows));
    return rows.map((row) => this.#record(row));
  }

  updateIf(
    id: string,
    expectedVersion: number | undefined,
    patch: Patch | PatchFrom<D>,
  ): Promise<StoredRecord<D>> {
    const what = `${this.collection.label} ${id}`;
    return this.#changes.run(id, () =>
      changeGuarded<D, MongoRow>({
        what,
        expectedVersion,
        patch,
        triesMax: UPDATE_TRIES_MAX,
        read: () => this.#row(id),
        recordOf: (row) => this.#changeable(row, what),
        save: (row, current, set) => this.#save(row, current, set),
      }),
    );
  }

  async removeMany(ids: readonly string[]): Promise<string[]> {
    const unique = idsToRemove(ids);
    // One by one, since a removal of many tells only how many went, not which.
    const removed: string[] = [];
    for (let start = 0; start < unique.length; start += REMOVALS_AT_ONCE) {
      const part = unique.slice(start, start + REMOVALS_AT_ONCE);
      const counts = await overMongo(() =>
        Promise.all(part.map((id) => this.#adapter.removeMany({ _id: id }))),
      );
      removed.push(...part.filter((_, n) => counts[n] === 1));
    }
    return removed;
  }

  async restore(records: readonly StoredRecord<D>[]): Promise<void> {
    refuseTooMany(records.length);
    const rows = records.map((record): MongoRow => {
      const { version, createdAt, updatedAt } = record;
      return { ...this.#newRow(record, createdAt), version, updatedAt };
    });
    if (rows.length === 0) return;
    await overMongo(() =>
      this.#adapter.records.bulkWrite(
        rows.map((row) => ({
          replaceOne: { filter: { _id: row._id }, replacement: row, upsert: true },
        })),
        { ordered: false, timestamps: false },
      ),
    );
  }

  clear(): Promise<number> {
    return overMongo(() => this.#adapter.clear());
  }

  async *stream(filter?: Filter): AsyncIterable<StoredRecord<D>> {
    const matching = this.#filter({ filter })!;
    let after: string | undefined;
    while (true) {
      const query: MongoFilter =
        after === undefined ? matching : { $and: [matching, { _id: { $gt: after } }] };
      const rows = await this.#find({ query, sort: ["_id"], limit: limits.batchRows });
      for (const row of rows) yield this.#record(row);
      if (rows.length < limits.batchRows) return;
      after = rows.at(-1)!._id;
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#changes.settled().then(() => this.#adapter.disconnect());
    return this.#closed;
  }

  #newRow(input: Doc & { id?: string }, now: number): MongoRow {
    const { content, text } = contentOf(this.collection, input);
    const row: MongoRow = {
      _id: input.id ?? this.#nextId(now),
      version: 1,
      schemaVersion: this.collection.schemaVersion,
      createdAt: now,
      updatedAt: now,
      doc: toStored(content) as Doc,
      ...searchParts(this.collection, content),
    };
    refuseTooLarge(row, text.length);
    return row;
  }

  async #refuseTaken(ids: readonly string[]): Promise<void> {
    const taken =
      ids.find((id, n) => ids.indexOf(id) !== n) ??
      (await this.getMany(ids)).map(({ id }) => id)[0];
    if (taken !== undefined) throw this.#exists(taken);
  }

  /** In order: when one is refused, those before it are stored and go again. */
  async #insert(rows: readonly MongoRow[]): Promise<void> {
    try {
      await this.#adapter.records.insertMany(rows, { ordered: true });
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      const stored = rows.slice(0, (error as { insertedCount?: number }).insertedCount ?? 0);
      if (stored.length > 0)
        await this.#adapter.removeMany({ _id: { $in: stored.map((row) => row._id) }, version: 1 });
      throw this.#exists(rows[stored.length]?._id);
    }
  }

  #exists(id = "with this id"): AppError {
    return new AppError("CONFLICT", { reason: `${this.collection.label} ${id} exists already` });
  }

  /** @throws UNAVAILABLE when a newer node of a cluster wrote it: this one would take its new fields away. */
  #changeable(row: MongoRow, what: string): StoredRecord<D> {
    if (row.schemaVersion > this.collection.schemaVersion)
      throw new AppError("UNAVAILABLE", {
        reason: `${what} was stored by a newer version of the product; update this node`,
      });
    return this.#record(row);
  }

  /** @returns undefined when the record is no longer as it was read. */
  async #save(
    row: MongoRow,
    current: StoredRecord<D>,
    set: Patch,
  ): Promise<StoredRecord<D> | undefined> {
    const { content, text } = contentOf(this.collection, { ...current, ...set });
    const parts = searchParts(this.collection, content);
    const doc = toStored(content) as Doc;
    refuseTooLarge({ ...row, ...parts, doc }, text.length);
    const updatedAt = Math.max(this.#now(), row.updatedAt);
    const { schemaVersion } = this.collection;
    const update =
      row.schemaVersion === schemaVersion
        ? fieldChanges(doc, Object.keys(set))
        : { $set: { doc, schemaVersion }, $unset: {} };
    Object.assign(update.$set, parts, { updatedAt });
    // The version in the filter is the guard: of many who read it, one matches.
    const { modifiedCount } = await overMongo(() =>
      this.#adapter.records.updateOne(
        { _id: row._id, version: row.version },
        { ...update, $inc: { version: 1 } },
      ),
    );
    if (modifiedCount === 0) return undefined;
    return this.#record({ ...row, doc, schemaVersion, version: row.version + 1, updatedAt });
  }

  async #row(id: string): Promise<MongoRow | undefined> {
    return (await this.#find({ query: { _id: id }, limit: 1 }))[0];
  }

  #find(filters: Parameters<SharedMongooseAdapter["createCursor"]>[0]): Promise<MongoRow[]> {
    return overMongo(() =>
      this.#adapter.createCursor(filters).select(withoutSearch).lean<MongoRow[]>().exec(),
    );
  }

  #count(query: MongoFilter): Promise<number> {
    // Without a condition the index of ids is counted, not the documents.
    if (Object.keys(query).length === 0)
      return overMongo(() => this.#adapter.records.countDocuments({}).hint("_id_").exec());
    return overMongo(() => this.#adapter.count({ query }));
  }

  #filter({ filter, search }: Pick<ListQuery, "filter" | "search">): MongoFilter | undefined {
    return mongoFilter(this.collection, parseFilter(this.collection, filter), search);
  }

  #record(row: MongoRow): StoredRecord<D> {
    return {
      ...(contentOfRow(this.collection, row) as D),
      id: row._id,
      version: row.version,
      createdAt: row.createdAt,
      updatedAt: row.updatedAt,
    };
  }
}

/** Only the fields that a patch names are written, so that a small change of a large record stays small. */
function fieldChanges(doc: Doc, fields: readonly string[]) {
  const update = { $set: {} as Doc, $unset: {} as Doc };
  for (const key of fields.map(storedKey)) {
    if (Object.hasOwn(doc, key)) update.$set[`doc.${key}`] = doc[key];
    else update.$unset[`doc.${key}`] = 1;
  }
  return update;
}

/** Numbers and long lists take more room than their JSON; looked at only where that can matter. */
function refuseTooLarge(row: MongoRow, textBytes: number): void {
  if (textBytes < 1024 * 1024) return;
  if (calculateObjectSize(row) > STORED_BYTES_MAX)
    throw new AppError("PAYLOAD_TOO_LARGE", { limit: "16 MiB as MongoDB stores it" });
}

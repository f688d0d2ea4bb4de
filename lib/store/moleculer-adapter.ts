import type { Service, ServiceBroker } from "moleculer";
import { AppError } from "../errors.ts";
import type { Doc, Filter, RecordStore, StoredRecord } from "./record-store.ts";
import { limits } from "./record-store.ts";

/** What moleculer-db hands to `find` and `count`; `query` is in our filter language, never raw. */
export interface AdapterQuery {
  query?: Filter;
  sort?: string | string[];
  search?: string;
  limit?: number | null;
  offset?: number | null;
}
export interface AdapterUpdate {
  /** A `version` among the fields is the one that the record must still have. */
  $set?: Doc;
  $unset?: Doc;
}

/**
 * moleculer-db's adapter interface over the record store port, so that its service mixin (entity events, cache,
 * transforms) works on any engine that has the port.
 */
export class RecordStoreAdapter {
  broker: ServiceBroker | undefined;
  service: Service | undefined;
  readonly #open: () => Promise<RecordStore>;
  #store: RecordStore | undefined;

  constructor(open: () => Promise<RecordStore>) {
    this.#open = open;
  }

  init(broker: ServiceBroker, service: Service): void {
    this.broker = broker;
    this.service = service;
  }

  async connect(): Promise<void> {
    this.#store ??= await this.#open();
  }

  async disconnect(): Promise<void> {
    const store = this.#store;
    this.#store = undefined;
    await store?.close();
  }

  get store(): RecordStore {
    if (!this.#store) throw new AppError("UNAVAILABLE", { reason: "the records are not open" });
    return this.#store;
  }

  async find(filters: AdapterQuery = {}): Promise<StoredRecord[]> {
    const { rows } = await this.store.list({
      filter: filters.query,
      sort: filters.sort,
      search: filters.search,
      limit: filters.limit ?? limits.listRowsMax,
      offset: filters.offset ?? 0,
    });
    return rows;
  }

  async findOne(query: Filter): Promise<StoredRecord | null> {
    return (await this.find({ query, limit: 1 }))[0] ?? null;
  }

  async findById(id: string): Promise<StoredRecord | null> {
    return (await this.store.get(id)) ?? null;
  }

  findByIds(ids: string[]): Promise<StoredRecord[]> {
    return this.store.getMany(ids);
  }

  count(filters: AdapterQuery = {}): Promise<number> {
    return this.store.count({ filter: filters.query, search: filters.search });
  }

  insert(entity: Doc): Promise<StoredRecord> {
    return this.store.insert(entity);
  }

  insertMany(entities: Doc[]): Promise<StoredRecord[]> {
    return this.store.insertMany(entities);
  }

  /** Changes every matching record, one by one; answers how many. */
  async updateMany(query: Filter, update: AdapterUpdate): Promise<number> {
    let changed = 0;
    for await (const { id } of this.store.stream(query)) {
      try {
        await this.updateById(id, update);
        changed += 1;
      } catch (error) {
        // Removed since it was read: nothing to change.
        if ((error as { type?: string }).type !== "NOT_FOUND") throw error;
      }
    }
    return changed;
  }

  /** A missing record is our NOT_FOUND, not the null that moleculer-db would turn into an error of its own. */
  updateById(id: string, { $set = {}, $unset = {} }: AdapterUpdate): Promise<StoredRecord> {
    const { version, ...fields } = $set;
    const removed = Object.fromEntries(Object.keys($unset).map((field) => [field, null]));
    return this.store.updateIf(id, version as number | undefined, { ...fields, ...removed });
  }

  async removeMany(query: Filter): Promise<number> {
    let removed = 0;
    while (true) {
      const rows = await this.find({ query });
      if (rows.length === 0) return removed;
      removed += (await this.store.removeMany(rows.map((row) => row.id))).length;
    }
  }

  async removeById(id: string): Promise<StoredRecord | null> {
    const record = await this.store.get(id);
    const [gone] = record ? await this.store.removeMany([id]) : [];
    return gone ? record! : null;
  }

  clear(): Promise<number> {
    return this.store.clear();
  }

  entityToObject(entity: StoredRecord): StoredRecord {
    return { ...entity };
  }

  beforeSaveTransformID(entity: Doc, idField: string): Doc {
    if (idField === "id" || entity[idField] === undefined) return entity;
    const { [idField]: id, ...rest } = entity;
    return { ...rest, id };
  }

  afterRetrieveTransformID(entity: StoredRecord, idField: string): Doc {
    if (idField === "id") return entity;
    const { id, ...rest } = entity;
    return { ...rest, [idField]: id };
  }
}

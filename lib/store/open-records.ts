import { join } from "node:path";
import type { Config } from "../config.ts";
import { AppError } from "../errors.ts";
import type { Collection, Doc, RecordStore } from "./record-store.ts";
import { SqliteRecordStore } from "./sqlite-record-store.ts";

interface Shared {
  users: number;
  declaration: string;
  store: Promise<RecordStore>;
}

/** Stores that are open in this process, by place and collection. */
const shared = new Map<string, Shared>();

export const recordsFile = (config: Pick<Config, "DATA_DIR">) =>
  join(config.DATA_DIR, "records.sqlite");

const declarationOf = ({ migrations, ...rest }: Collection) =>
  JSON.stringify({ ...rest, migrations: Object.keys(migrations) });

/**
 * Opens a collection where the configuration says that records live. Services of one process that open the same
 * collection share one store; each closes its own handle.
 * @throws AppError NOT_CONFIGURED when the configuration names a store that this version cannot use.
 */
export async function openRecords<D extends Doc = Doc>(
  config: Pick<Config, "DATA_DIR"> & Partial<Pick<Config, "MONGO_URL">>,
  collection: Collection,
): Promise<RecordStore<D>> {
  if (config.MONGO_URL)
    throw new AppError("NOT_CONFIGURED", {
      what: "MONGO_URL",
      fix: "records in MongoDB are not supported by this version; leave MONGO_URL empty to keep them in DATA_DIR",
    });
  const path = recordsFile(config);
  const key = `${path}\n${collection.name}`;
  const declaration = declarationOf(collection);
  let entry = shared.get(key);
  if (entry && entry.declaration !== declaration)
    throw new Error(`The collection ${collection.name} is declared in two different ways`);
  if (!entry) {
    entry = { users: 0, declaration, store: SqliteRecordStore.open(collection, { path }) };
    shared.set(key, entry);
  }
  entry.users += 1;
  try {
    return handle(key, entry, (await entry.store) as unknown as RecordStore<D>);
  } catch (error) {
    if (shared.get(key) === entry) shared.delete(key);
    throw error;
  }
}

/** The shared store under a `close` of its own: the last one to close really closes it. */
function handle<D extends Doc>(key: string, entry: Shared, store: RecordStore<D>): RecordStore<D> {
  let closed = false;
  return {
    collection: store.collection,
    get: (id) => store.get(id),
    getMany: (ids) => store.getMany(ids),
    list: (query) => store.list(query),
    count: (query) => store.count(query),
    insert: (doc) => store.insert(doc),
    insertMany: (docs) => store.insertMany(docs),
    updateIf: (id, version, patch) => store.updateIf(id, version, patch),
    removeMany: (ids) => store.removeMany(ids),
    clear: () => store.clear(),
    stream: (filter) => store.stream(filter),
    async close() {
      if (closed) return;
      closed = true;
      entry.users -= 1;
      if (entry.users > 0) return;
      if (shared.get(key) === entry) shared.delete(key);
      await store.close();
    },
  };
}

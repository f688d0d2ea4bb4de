import { join } from "node:path";
import type { Config } from "../config.ts";
import { dependenciesOf } from "../dependency-state.ts";
import { delegated } from "./delegated-store.ts";
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

type Place = Pick<Config, "DATA_DIR"> & Partial<Pick<Config, "MONGO_URL">>;

async function openStore(config: Place, collection: Collection): Promise<RecordStore> {
  if (config.MONGO_URL === undefined)
    return SqliteRecordStore.open(collection, { path: recordsFile(config) });
  // Only where it is needed: the library costs memory and time at the start.
  const { MongoRecordStore } = await import("./mongo-record-store.ts");
  return MongoRecordStore.open(collection, {
    url: config.MONGO_URL,
    reporter: dependenciesOf(config).declare("mongodb", {
      degrades: "Records cannot be read or written",
      essential: true,
    }),
  });
}

/**
 * Opens a collection where the configuration says that records live: in MongoDB with MONGO_URL, else in SQLite.
 * Services of one process that open the same collection share one store; each closes its own handle.
 * @throws ConfigError in one sentence when MONGO_URL cannot be used.
 */
export async function openRecords<D extends Doc = Doc>(
  config: Place,
  collection: Collection,
): Promise<RecordStore<D>> {
  const key = `${config.MONGO_URL ?? recordsFile(config)}\n${collection.name}`;
  const declaration = declarationOf(collection);
  let entry = shared.get(key);
  if (entry && entry.declaration !== declaration)
    throw new Error(`The collection ${collection.name} is declared in two different ways`);
  if (!entry) {
    entry = { users: 0, declaration, store: openStore(config, collection) };
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
    ...delegated(store),
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

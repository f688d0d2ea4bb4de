import { delegated } from "./delegated-store.ts";
import type { RecordStore } from "./record-store.ts";

/**
 * A store that tells of each change before it is answered. A change that failed is told as well: whether it was stored is
 * not always known.
 */
export function tellingChanges(store: RecordStore, changed: () => Promise<void>): RecordStore {
  const told = async <T>(change: Promise<T>): Promise<T> => {
    try {
      return await change;
    } finally {
      await changed();
    }
  };
  return {
    ...delegated(store),
    insert: (doc) => told(store.insert(doc)),
    insertMany: (docs) => told(store.insertMany(docs)),
    updateIf: (id, version, patch) => told(store.updateIf(id, version, patch)),
    removeMany: (ids) => told(store.removeMany(ids)),
    restore: (records) => told(store.restore(records)),
    clear: () => told(store.clear()),
  };
}

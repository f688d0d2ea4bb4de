import type { Doc, RecordStore } from "./record-store.ts";

/** The same store as a plain object: whoever wraps it spreads this and replaces the calls that he means. */
export const delegated = <D extends Doc>(store: RecordStore<D>): RecordStore<D> => ({
  collection: store.collection,
  get: (id) => store.get(id),
  getMany: (ids) => store.getMany(ids),
  list: (query) => store.list(query),
  count: (query) => store.count(query),
  stream: (filter) => store.stream(filter),
  insert: (doc) => store.insert(doc),
  insertMany: (docs) => store.insertMany(docs),
  updateIf: (id, version, patch) => store.updateIf(id, version, patch),
  removeMany: (ids) => store.removeMany(ids),
  restore: (records) => store.restore(records),
  clear: () => store.clear(),
  close: () => store.close(),
});

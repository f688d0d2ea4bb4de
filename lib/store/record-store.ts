/**
 * Port of the record store (design, section 1): what every store of records can do, whatever engine lies
 * under it. All adapters pass `test/support/record-store.suite.ts`.
 */

export type FieldKind = "text" | "number" | "boolean";
export type Scalar = string | number | boolean;
/** Content of a record, plain JSON. At the top level null and absent are the same: a stored record has no nulls there. */
export type Doc = Record<string, unknown>;

export interface RecordMeta {
  /** Sortable by time of creation unless the caller gave its own. */
  id: string;
  /** 1 for a new record, one more with each change. */
  version: number;
  /** Milliseconds since the epoch. */
  createdAt: number;
  updatedAt: number;
}
export type StoredRecord<D extends Doc = Doc> = RecordMeta & D;

/** Fields of every record, which any list may filter and sort by. */
export const metaFields: Readonly<Record<keyof RecordMeta, FieldKind>> = {
  id: "text",
  version: "number",
  createdAt: "number",
  updatedAt: "number",
};

export interface Collection {
  /** Lower snake case: `agent_app`. */
  name: string;
  /** How people call one record, for messages. */
  label: string;
  /** Fields that lists filter by, with the kind of their values. Each has an index. */
  filters: Readonly<Record<string, FieldKind>>;
  /** Fields that lists sort by. Each has an index. */
  sorts: Readonly<Record<string, FieldKind>>;
  /** Text fields that full-text search looks into. */
  search: readonly string[];
  /** Version of the documents' shape, from 1. */
  schemaVersion: number;
  /** Step to each version from the one before; pure. Every version from 2 on has one. */
  migrations: Readonly<Record<number, (doc: Doc) => Doc>>;
}

export const operators = ["eq", "ne", "in", "gt", "gte", "lt", "lte", "exists"] as const;
export type Operator = (typeof operators)[number];

/** `ne` also matches records without the field; the comparisons never do. */
export interface Condition {
  eq?: Scalar;
  ne?: Scalar;
  in?: readonly Scalar[];
  gt?: Scalar;
  gte?: Scalar;
  lt?: Scalar;
  lte?: Scalar;
  exists?: boolean;
}
/** All conditions hold. A plain value means `eq`. Declared fields only. */
export type Filter = Readonly<Record<string, Scalar | Condition>>;

export interface ListQuery {
  filter?: Filter;
  /** `"-createdAt,name"`; a dash means descending. Ties go by id, in the direction of the last field. */
  sort?: string | readonly string[];
  /** Words that must all occur; see `search-text.ts`. */
  search?: string;
  offset?: number;
  limit: number;
}

/** Fields to set; null removes one; undefined leaves it. Nested objects are replaced whole. */
export type Patch = Readonly<Record<string, unknown>>;
/** A patch that depends on what is stored; answering undefined leaves the record as it is. May run more than once. */
export type PatchFrom<D extends Doc> = (current: StoredRecord<D>) => Patch | undefined;

export const limits = {
  listRowsMax: 1_000,
  filterConditionsMax: 32,
  filterInMax: 200,
  sortFieldsMax: 4,
  recordBytesMax: 4 * 1024 * 1024,
  insertManyMax: 1_000,
  removeManyMax: 1_000,
  /** Rows that one step of a migration or of `stream` holds in memory. */
  batchRows: 200,
} as const;

/**
 * One collection of records. Every answer to a write means "on disk".
 * Errors: INVALID_INPUT (unknown field, wrong kind; names the field; a document whose declared field holds another
 * kind), NOT_FOUND, CONFLICT (id exists), VERSION_CONFLICT, PAYLOAD_TOO_LARGE; UNAVAILABLE while the store's server
 * cannot be reached, where a write may yet have been done.
 */
export interface RecordStore<D extends Doc = Doc> {
  readonly collection: Collection;
  get(id: string): Promise<StoredRecord<D> | undefined>;
  /** Records that exist, in the order of `ids`. */
  getMany(ids: readonly string[]): Promise<StoredRecord<D>[]>;
  list(query: ListQuery): Promise<{ rows: StoredRecord<D>[]; total: number }>;
  count(query?: Pick<ListQuery, "filter" | "search">): Promise<number>;
  insert(doc: D & { id?: string }): Promise<StoredRecord<D>>;
  /**
   * All or none: of a list that is refused nothing stays. Where the engine has no transactions (MongoDB) others may
   * see a part of a list until it is answered, and a node or server that dies in the middle leaves a part, each record
   * of it whole; with ids of his own the caller can tell.
   */
  insertMany(docs: readonly (D & { id?: string })[]): Promise<StoredRecord<D>[]>;
  /** Changes a record if it still has `expectedVersion`; undefined changes whatever is stored. */
  updateIf(
    id: string,
    expectedVersion: number | undefined,
    patch: Patch | PatchFrom<D>,
  ): Promise<StoredRecord<D>>;
  /** Removes what exists of `ids`; answers the ids that it removed. */
  removeMany(ids: readonly string[]): Promise<string[]>;
  /**
   * Takes records over as they are, id, version and times included, from another store or a copy; what bears one of
   * their ids is replaced. At most `insertManyMax` at a time. Safe to repeat, which is what to do when it failed: some
   * may be stored. For nobody but whoever moves records: no version is compared.
   */
  restore(records: readonly StoredRecord<D>[]): Promise<void>;
  /** Removes everything; answers how many records. */
  clear(): Promise<number>;
  /** All matching records by rising id, never more than a batch in memory. */
  stream(filter?: Filter): AsyncIterable<StoredRecord<D>>;
  /** Safe to repeat. */
  close(): Promise<void>;
}

const NAME = /^[a-z][a-z0-9_]{0,47}$/;
const FIELD = /^[A-Za-z_][A-Za-z0-9_]{0,47}(\.[A-Za-z_][A-Za-z0-9_]{0,47}){0,3}$/;

/** Checks a collection's declaration; a wrong one is a mistake in the program and stops the start. */
export function defineCollection(
  input: Partial<Collection> & Pick<Collection, "name">,
): Collection {
  const collection: Collection = {
    label: input.name.replaceAll("_", " "),
    filters: {},
    sorts: {},
    search: [],
    schemaVersion: 1,
    migrations: {},
    ...(Object.fromEntries(
      Object.entries(input).filter(([, value]) => value !== undefined),
    ) as typeof input),
  };
  if (!NAME.test(collection.name)) throw new Error(`${collection.name} is no collection name`);
  const fields = [
    ...Object.keys(collection.filters),
    ...Object.keys(collection.sorts),
    ...collection.search,
  ];
  for (const field of fields)
    if (!FIELD.test(field))
      throw new Error(`${collection.name}: ${field} cannot be used as a field`);
  for (let version = 2; version <= collection.schemaVersion; version += 1)
    if (!collection.migrations[version])
      throw new Error(`${collection.name} has no migration to version ${version}`);
  return collection;
}

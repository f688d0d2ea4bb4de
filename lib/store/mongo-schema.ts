import { type Connection, type Model, Schema, type SchemaOptions } from "mongoose";
import { isDuplicateKey } from "../mongo/mongo-errors.ts";
import { fromStored, toStored } from "./mongo-content.ts";
import { mongoIndexes, ownIndex } from "./mongo-query.ts";
import { contentOf, migrated, tokensAt } from "./record-content.ts";
import { type Collection, type Doc, limits } from "./record-store.ts";

/** A record as MongoDB holds it. */
export interface MongoRow {
  _id: string;
  version: number;
  /** Version of the shape of `doc`. */
  schemaVersion: number;
  createdAt: number;
  updatedAt: number;
  /** The content, with names of fields as `mongo-content.ts` writes them. */
  doc: Doc;
  /** Every token of the searched fields once; indexed. */
  tokens?: string[];
  /** The tokens of each searched field in their order, with spaces around each: where phrases are looked for. */
  texts?: string[];
}
export type RecordModel = Model<MongoRow>;

const strict: SchemaOptions<never> = {
  // A typo in a filter or an update is an error, never "matches everything" or "changes nothing".
  strict: "throw",
  strictQuery: "throw",
  minimize: false,
  versionKey: false,
  id: false,
  autoIndex: false,
  autoCreate: false,
};

/**
 * The envelope is mongoose's to check. What is in `doc` was checked by the contract's schema, and declared fields by
 * `contentOf`; describing it here a second time could only disagree.
 */
const recordSchema = new Schema<MongoRow>(
  {
    _id: { type: String, required: true },
    version: { type: Number, required: true, min: 1 },
    schemaVersion: { type: Number, required: true, min: 1 },
    createdAt: { type: Number, required: true },
    updatedAt: { type: Number, required: true },
    doc: { type: Schema.Types.Mixed, required: true },
    tokens: { type: [String], default: undefined },
    texts: { type: [String], default: undefined },
  },
  strict as SchemaOptions<MongoRow>,
);

interface Known {
  _id: string;
  schemaVersion: number;
  /** Search fields that the tokens of all records were made from; null while that is not so. */
  searchFields: string | null;
}
const knownSchema = new Schema<Known>(
  {
    _id: { type: String, required: true },
    schemaVersion: { type: Number, required: true },
    searchFields: { type: String, default: null },
  },
  strict as SchemaOptions<Known>,
);
/** What is known of the collections: one document each. */
const CATALOGUE = "reelmesh_collections";

const modelOf = <T>(connection: Connection, name: string, schema: Schema<T>): Model<T> =>
  (connection.models[name] as Model<T> | undefined) ?? connection.model<T>(name, schema, name);

export const recordModel = (connection: Connection, collection: Collection): RecordModel =>
  modelOf(connection, collection.name, recordSchema);

/** What a search looks into, for one record. */
export function searchParts(
  collection: Collection,
  content: Doc,
): Pick<MongoRow, "tokens" | "texts"> {
  if (collection.search.length === 0) return {};
  const fields = collection.search.map((field) => tokensAt(content, field));
  return {
    tokens: [...new Set(fields.flat())],
    texts: fields.filter((tokens) => tokens.length > 1).map((tokens) => ` ${tokens.join(" ")} `),
  };
}

/** The content of a stored record in the declared version. */
export function contentOfRow(collection: Collection, row: Pick<MongoRow, "doc" | "schemaVersion">) {
  const doc = fromStored(row.doc) as Doc;
  return row.schemaVersion < collection.schemaVersion
    ? contentOf(collection, migrated(collection, doc, row.schemaVersion)).content
    : doc;
}

/**
 * Brings a collection to the form that the code declares: indexes, documents of an older version (in bounded batches,
 * each durable, so that a stopped migration goes on at the next start), search tokens. Any number of nodes may do so
 * at the same time: each document is changed under its version.
 * @throws Error with a sentence for the operator when the records come from a newer version of the product.
 */
export async function prepareMongoCollection(
  connection: Connection,
  collection: Collection,
): Promise<void> {
  const catalogue = modelOf(connection, CATALOGUE, knownSchema);
  const known = await recordVersion(catalogue, collection);
  if (known.schemaVersion > collection.schemaVersion)
    throw new Error(
      `The ${collection.label} records in the database ${connection.name} of MONGO_URL have schema version ${known.schemaVersion}, this program knows up to ${collection.schemaVersion}: start the newer version again, or restore a backup made with this one`,
    );
  const model = recordModel(connection, collection);
  await matchIndexes(model, collection);
  await migrateDocuments(model, collection);
  const wanted = JSON.stringify(collection.search);
  if (known.searchFields === wanted) return;
  await rebuildSearch(model, collection);
  await catalogue.updateOne({ _id: collection.name }, { $set: { searchFields: wanted } });
}

/** Before the first document changes, so that an older program refuses a half-migrated collection as well. */
async function recordVersion(catalogue: Model<Known>, collection: Collection): Promise<Known> {
  const record = () =>
    catalogue
      .findOneAndUpdate(
        { _id: collection.name },
        { $max: { schemaVersion: collection.schemaVersion }, $setOnInsert: { searchFields: null } },
        { upsert: true, new: true },
      )
      .lean<Known>();
  try {
    return (await record())!;
  } catch (error) {
    // Two nodes that start at once may both try to insert; the second time it is there.
    if (!isDuplicateKey(error)) throw error;
    return (await record())!;
  }
}

const INDEX_NOT_FOUND = 27;
const NAMESPACE_NOT_FOUND = 26;
const codeIs = (code: number) => (error: unknown) => {
  if ((error as { code?: unknown }).code !== code) throw error;
};

async function matchIndexes(model: RecordModel, collection: Collection): Promise<void> {
  const wanted = mongoIndexes(collection);
  let present: string[] = [];
  try {
    present = (await model.collection.indexes()).map(({ name }) => name ?? "");
  } catch (error) {
    codeIs(NAMESPACE_NOT_FOUND)(error);
  }
  const missing = wanted.filter(({ name }) => !present.includes(name));
  if (missing.length > 0) await model.collection.createIndexes(missing);
  for (const name of present)
    if (ownIndex.test(name) && !wanted.some((index) => index.name === name))
      // Another node may have dropped it meanwhile. Indexes that an operator made stay.
      await model.collection.dropIndex(name).catch(codeIs(INDEX_NOT_FOUND));
}

async function migrateDocuments(model: RecordModel, collection: Collection): Promise<void> {
  if (collection.schemaVersion === 1) return;
  while (true) {
    // What was migrated, here or by another node, is no longer found; what was changed meanwhile is found again.
    const rows = await model
      .find({ schemaVersion: { $lt: collection.schemaVersion } })
      .limit(limits.batchRows)
      .lean<MongoRow[]>();
    if (rows.length === 0) return;
    const changes = rows.map((row) => {
      const content = contentOfRow(collection, row);
      return {
        updateOne: {
          filter: { _id: row._id, version: row.version },
          update: {
            $set: {
              doc: toStored(content) as Doc,
              schemaVersion: collection.schemaVersion,
              ...searchParts(collection, content),
            },
            $inc: { version: 1 },
          },
        },
      };
    });
    await model.bulkWrite(changes, { ordered: false, timestamps: false });
  }
}

/** Makes the search tokens anew when other fields are searched than those that they were made from. */
async function rebuildSearch(model: RecordModel, collection: Collection): Promise<void> {
  let after: string | undefined;
  while (true) {
    const rows: MongoRow[] = await model
      .find(after === undefined ? {} : { _id: { $gt: after } })
      .sort({ _id: 1 })
      .limit(limits.batchRows)
      .select({ version: 1, schemaVersion: 1, doc: 1 })
      .lean<MongoRow[]>();
    if (rows.length === 0) return;
    const { matchedCount } = await model.bulkWrite(
      rows.map((row) => {
        const parts = searchParts(collection, contentOfRow(collection, row));
        return {
          updateOne: {
            filter: { _id: row._id, version: row.version },
            update: parts.tokens ? { $set: parts } : { $unset: { tokens: 1, texts: 1 } },
          },
        };
      }),
      { ordered: false, timestamps: false },
    );
    // Somebody changed one of them since it was read: the batch once more.
    if (matchedCount === rows.length) after = rows.at(-1)!._id;
  }
}

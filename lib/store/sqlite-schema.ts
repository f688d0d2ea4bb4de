import type { Database, Statement } from "../sqlite/database.ts";
import { contentOf, migrated, tokensAt } from "./record-content.ts";
import { type Collection, type Doc, limits } from "./record-store.ts";
import { indexesOf, recordTable, searchTable } from "./sqlite-query.ts";

interface Known {
  schema_version: number;
  /** Search fields that the full-text index was built from; null while it is being built. */
  search_fields: string | null;
}

interface Row {
  seq: number;
  version: number;
  schema_version: number;
  doc: string;
}

const columnNames = (collection: Collection) => collection.search.map((_, n) => `c${n}`);

/** Puts a record's text into the index; the record's row must exist when it runs. */
export function indexTextStatements(collection: Collection, id: string, doc: Doc): Statement[] {
  if (collection.search.length === 0) return [];
  const names = columnNames(collection);
  return [
    {
      sql: `INSERT OR REPLACE INTO ${searchTable(collection)} (rowid, ${names.join(", ")}) SELECT seq, ${names.map(() => "?").join(", ")} FROM ${recordTable(collection)} WHERE id = ?`,
      params: [...collection.search.map((field) => tokensAt(doc, field).join(" ")), id],
    },
  ];
}

/** Takes a record's text out of the index; must run before its row goes. */
export const unindexTextStatements = (collection: Collection, id: string): Statement[] =>
  collection.search.length === 0
    ? []
    : [
        {
          sql: `DELETE FROM ${searchTable(collection)} WHERE rowid = (SELECT seq FROM ${recordTable(collection)} WHERE id = ?)`,
          params: [id],
        },
      ];

/**
 * Brings the tables of a collection to the form that the code declares: tables, indexes, documents of an older
 * version (in bounded batches, each durable, so that a stopped migration goes on at the next start), full text.
 * @throws Error with a sentence for the operator when the records come from a newer version of the product.
 */
export async function prepareCollection(db: Database, collection: Collection): Promise<void> {
  const table = recordTable(collection);
  await db.write([
    {
      sql: "CREATE TABLE IF NOT EXISTS collections (name TEXT PRIMARY KEY, schema_version INTEGER NOT NULL, search_fields TEXT) STRICT",
    },
    {
      sql: `CREATE TABLE IF NOT EXISTS ${table} (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, schema_version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, doc TEXT NOT NULL) STRICT`,
    },
  ]);
  const known = db.get<Known>(
    "SELECT schema_version, search_fields FROM collections WHERE name = ?",
    [collection.name],
  );
  if (known && known.schema_version > collection.schemaVersion)
    throw new Error(
      `The ${collection.label} records in ${db.path} have schema version ${known.schema_version}, this program knows up to ${collection.schemaVersion}: start the newer version again, or restore a backup made with this one`,
    );
  // Before the first document changes, so that an older program refuses a half-migrated file as well.
  await db.write([
    {
      sql: "INSERT INTO collections (name, schema_version, search_fields) VALUES (?, ?, NULL) ON CONFLICT (name) DO UPDATE SET schema_version = excluded.schema_version",
      params: [collection.name, collection.schemaVersion],
    },
  ]);
  const changed = await migrateDocuments(db, collection);
  await matchIndexes(db, collection);
  await matchSearch(db, collection, changed ? null : (known?.search_fields ?? null));
}

async function migrateDocuments(db: Database, collection: Collection): Promise<boolean> {
  if (collection.schemaVersion === 1) return false;
  const table = recordTable(collection);
  let after = 0;
  let changed = false;
  while (true) {
    const rows = db.all<Row>(
      `SELECT seq, version, schema_version, doc FROM ${table} WHERE seq > ? AND schema_version < ? ORDER BY seq LIMIT ${limits.batchRows}`,
      [after, collection.schemaVersion],
    );
    if (rows.length === 0) return changed;
    changed = true;
    after = rows.at(-1)!.seq;
    const results = await Promise.all(
      rows.map((row) =>
        db.write([
          {
            sql: `UPDATE ${table} SET doc = ?, version = version + 1, schema_version = ? WHERE seq = ? AND version = ?`,
            params: [migratedText(collection, row), collection.schemaVersion, row.seq, row.version],
            mustChange: 1,
          },
        ]),
      ),
    );
    // Refused: another process on the same file changed or migrated it first. Looked at once more.
    const refused = rows.find((_, n) => !results[n]!.ok);
    if (refused) after = refused.seq - 1;
  }
}

const migratedText = (collection: Collection, row: Row): string =>
  contentOf(collection, migrated(collection, JSON.parse(row.doc) as Doc, row.schema_version)).text;

async function matchIndexes(db: Database, collection: Collection): Promise<void> {
  const wanted = indexesOf(collection);
  const present = db
    .all<{ name: string }>(
      "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
      [recordTable(collection)],
    )
    .map((row) => row.name);
  const statements = [
    ...present
      .filter((name) => !wanted.has(name))
      .map((name) => ({ sql: `DROP INDEX IF EXISTS ${name}` })),
    ...[...wanted].filter(([name]) => !present.includes(name)).map(([, sql]) => ({ sql })),
  ];
  if (statements.length > 0) await db.write(statements);
}

/** Rebuilds the full-text index when other fields are searched than those it was built from. */
async function matchSearch(
  db: Database,
  collection: Collection,
  builtFrom: string | null,
): Promise<void> {
  const wanted = JSON.stringify(collection.search);
  if (builtFrom === wanted) return;
  const search = searchTable(collection);
  await db.write([
    {
      sql: "UPDATE collections SET search_fields = NULL WHERE name = ?",
      params: [collection.name],
    },
    { sql: `DROP TABLE IF EXISTS ${search}` },
    ...(collection.search.length === 0
      ? []
      : [
          {
            // The tokens are ours already; "ascii" parts them at the spaces and changes nothing else.
            sql: `CREATE VIRTUAL TABLE ${search} USING fts5(${columnNames(collection).join(", ")}, content='', contentless_delete=1, tokenize='ascii')`,
          },
        ]),
  ]);
  let after = "";
  while (collection.search.length > 0) {
    const rows = db.all<{ id: string; doc: string }>(
      `SELECT id, doc FROM ${recordTable(collection)} WHERE id > ? ORDER BY id LIMIT ${limits.batchRows}`,
      [after],
    );
    if (rows.length === 0) break;
    after = rows.at(-1)!.id;
    await db.write(
      rows.flatMap(({ id, doc }) => indexTextStatements(collection, id, JSON.parse(doc) as Doc)),
    );
  }
  await db.write([
    {
      sql: "UPDATE collections SET search_fields = ? WHERE name = ?",
      params: [wanted, collection.name],
    },
  ]);
}

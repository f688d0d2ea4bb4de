import type { SqlValue } from "../sqlite/database.ts";
import type { SortKey, Test } from "./record-query.ts";
import type { Collection, Scalar } from "./record-store.ts";
import { phrasesOf } from "./search-text.ts";

/** A piece of SQL with its parameters. */
export interface Sql {
  text: string;
  params: SqlValue[];
}

const columns: Readonly<Record<string, string>> = {
  id: "id",
  version: "version",
  createdAt: "created_at",
  updatedAt: "updated_at",
};

export const recordTable = (collection: Collection) => `r_${collection.name}`;
export const searchTable = (collection: Collection) => `f_${collection.name}`;

/** The expression of a field; indexes and queries must use the very same text. */
export const fieldSql = (field: string): string =>
  columns[field] ?? `json_extract(doc, '$.${field}')`;

/** SQLite has no booleans; json_extract answers 1 and 0. */
const bind = (value: Scalar): SqlValue => (typeof value === "boolean" ? Number(value) : value);

const comparisons = { gt: ">", gte: ">=", lt: "<", lte: "<=" } as const;

function testSql({ field, operator, value }: Test): Sql {
  const left = fieldSql(field);
  switch (operator) {
    case "eq":
      return { text: `${left} = ?`, params: [bind(value as Scalar)] };
    case "ne":
      return { text: `${left} IS NOT ?`, params: [bind(value as Scalar)] };
    case "in": {
      const values = (value as readonly Scalar[]).map(bind);
      return { text: `${left} IN (${values.map(() => "?").join(", ")})`, params: values };
    }
    case "exists":
      return { text: `${left} IS ${value ? "NOT NULL" : "NULL"}`, params: [] };
    case "gt":
    case "gte":
    case "lt":
    case "lte":
      return { text: `${left} ${comparisons[operator]} ?`, params: [bind(value as Scalar)] };
    default:
      return operator satisfies never;
  }
}

function searchSql(collection: Collection, search: string | undefined): Sql[] {
  if (!search?.trim()) return [];
  const phrases = phrasesOf(search);
  // A search for nothing but punctuation finds nothing, rather than everything.
  if (phrases.length === 0 || collection.search.length === 0) return [{ text: "0", params: [] }];
  const match = phrases
    .map(({ tokens, prefix }) => `"${tokens.join(" ")}"${prefix ? " *" : ""}`)
    .join(" AND ");
  const table = searchTable(collection);
  return [{ text: `seq IN (SELECT rowid FROM ${table} WHERE ${table} MATCH ?)`, params: [match] }];
}

/** The condition of a list, `1` when everything matches. */
export function whereSql(
  collection: Collection,
  tests: readonly Test[],
  search: string | undefined,
): Sql {
  const parts = [...tests.map(testSql), ...searchSql(collection, search)];
  return {
    text: parts.length === 0 ? "1" : parts.map((part) => part.text).join(" AND "),
    params: parts.flatMap((part) => part.params),
  };
}

export const orderSql = (keys: readonly SortKey[]): string =>
  keys.map(({ field, descending }) => `${fieldSql(field)}${descending ? " DESC" : ""}`).join(", ");

/**
 * Indexes of a collection by name. A filter's index goes on by time of creation, so that the usual list, one
 * state newest first, needs no sorting; a sort's index goes on by id, as ties do.
 */
export function indexesOf(collection: Collection): Map<string, string> {
  const table = recordTable(collection);
  const indexes = new Map<string, string>();
  const add = (field: string, kind: string, rest: readonly string[]) => {
    const name = `ix_${collection.name}__${field.replaceAll(".", "__")}__${kind}`;
    const parts = [fieldSql(field), ...rest].join(", ");
    indexes.set(name, `CREATE INDEX IF NOT EXISTS ${name} ON ${table} (${parts})`);
  };
  add("createdAt", "sort", ["id"]);
  add("updatedAt", "sort", ["id"]);
  for (const field of Object.keys(collection.filters))
    if (!columns[field]) add(field, "filter", ["created_at", "id"]);
  for (const field of Object.keys(collection.sorts))
    if (!columns[field]) add(field, "sort", ["id"]);
  return indexes;
}

import { storedKey } from "./mongo-content.ts";
import type { SortKey, Test } from "./record-query.ts";
import { type Collection, metaFields } from "./record-store.ts";
import { type Phrase, phrasesOf } from "./search-text.ts";

/** Our filter language in MongoDB's, for documents as `mongo-schema.ts` stores them. Pure. */

export type MongoFilter = Record<string, unknown>;
export interface MongoIndex {
  name: string;
  key: Record<string, 1>;
}

/** Where a field lies in a stored document. */
export function mongoPath(field: string): string {
  if (field === "id") return "_id";
  if (Object.hasOwn(metaFields, field)) return field;
  return `doc.${field.split(".").map(storedKey).join(".")}`;
}

function testPart({ operator, value }: Test): [operator: string, operand: unknown] {
  switch (operator) {
    case "exists":
      // Null and absent are the same, and null finds both.
      return [value ? "$ne" : "$eq", null];
    case "eq":
    case "ne":
    case "in":
    case "gt":
    case "gte":
    case "lt":
    case "lte":
      return [`$${operator}`, value];
    default:
      return operator satisfies never;
  }
}

/** All tests hold. Those of one field stand together, so that they become one range of its index. */
function testsFilter(tests: readonly Test[]): MongoFilter[] {
  const parts: Record<string, Record<string, unknown>>[] = [{}];
  for (const test of tests) {
    const path = mongoPath(test.field);
    const [operator, operand] = testPart(test);
    const part = parts.find((one) => !Object.hasOwn(one[path] ?? {}, operator));
    if (part) part[path] = { ...part[path], [operator]: operand };
    else parts.push({ [path]: { [operator]: operand } });
  }
  return parts.filter((part) => Object.keys(part).length > 0);
}

/** Tokens are letters, digits and marks only: nothing in them has a meaning in a regular expression. */
function phraseFilters({ tokens, prefix }: Phrase): MongoFilter[] {
  const whole = prefix ? tokens.slice(0, -1) : tokens;
  const filters: MongoFilter[] = [];
  // Through the index of tokens to the few candidates, then whether they stand side by side.
  if (whole.length > 0) filters.push({ tokens: { $all: [...new Set(whole)] } });
  if (prefix) filters.push({ tokens: { $regex: `^${tokens.at(-1)}` } });
  if (tokens.length > 1)
    filters.push({ texts: { $regex: ` ${tokens.join(" ")}${prefix ? "" : " "}` } });
  return filters;
}

/** @returns undefined when nothing can match: a search for punctuation finds nothing, rather than everything. */
export function mongoFilter(
  collection: Collection,
  tests: readonly Test[],
  search?: string,
): MongoFilter | undefined {
  const parts = testsFilter(tests);
  if (search?.trim()) {
    const phrases = phrasesOf(search);
    if (phrases.length === 0 || collection.search.length === 0) return undefined;
    parts.push(...phrases.flatMap(phraseFilters));
  }
  return parts.length > 1 ? { $and: parts } : (parts[0] ?? {});
}

/** In mongoose's form: `["-createdAt", "-_id"]`. */
export const mongoSort = (keys: readonly SortKey[]): string[] =>
  keys.map(({ field, descending }) => `${descending ? "-" : ""}${mongoPath(field)}`);

/** Names of indexes that are ours to make and to drop. */
export const ownIndex = /^ix_/;

/**
 * Indexes of a collection. A filter's index goes on by time of creation, so that the usual list, one state newest
 * first, needs no sorting; a sort's index goes on by id, as ties do.
 */
export function mongoIndexes(collection: Collection): MongoIndex[] {
  const indexes: MongoIndex[] = [];
  const add = (field: string, kind: string, rest: readonly string[]) =>
    indexes.push({
      name: `ix_${field.replaceAll(".", "__")}__${kind}`,
      key: Object.fromEntries([mongoPath(field), ...rest].map((path) => [path, 1])),
    });
  add("createdAt", "sort", ["_id"]);
  add("updatedAt", "sort", ["_id"]);
  for (const field of Object.keys(collection.filters))
    if (!Object.hasOwn(metaFields, field)) add(field, "filter", ["createdAt", "_id"]);
  for (const field of Object.keys(collection.sorts))
    if (!Object.hasOwn(metaFields, field)) add(field, "sort", ["_id"]);
  if (collection.search.length > 0) indexes.push({ name: "ix_tokens", key: { tokens: 1 } });
  // A start looks for documents of an older form.
  if (collection.schemaVersion > 1)
    indexes.push({ name: "ix_schema", key: { schemaVersion: 1, _id: 1 } });
  return indexes;
}

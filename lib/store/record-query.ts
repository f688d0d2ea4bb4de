import { AppError } from "../errors.ts";
import {
  type Collection,
  type Condition,
  type FieldKind,
  type Filter,
  type ListQuery,
  limits,
  metaFields,
  type Operator,
  operators,
  type Scalar,
} from "./record-store.ts";

/** One test of one field, checked: the kind is the declared one and the value fits it. */
export interface Test {
  field: string;
  operator: Operator;
  value: Scalar | readonly Scalar[];
}
export interface SortKey {
  field: string;
  descending: boolean;
}

const invalid = (reason: string) => new AppError("INVALID_INPUT", { reason });

function fits(kind: FieldKind, value: unknown): value is Scalar {
  if (kind === "number") return typeof value === "number" && Number.isFinite(value);
  return typeof value === (kind === "text" ? "string" : "boolean");
}

function checkOperand(field: string, kind: FieldKind, operator: Operator, value: unknown): Test {
  const name = `${field}.${operator}`;
  if (operator === "exists") {
    if (typeof value !== "boolean") throw invalid(`${name}: must be true or false`);
    return { field, operator, value };
  }
  if (operator === "in") {
    if (!Array.isArray(value)) throw invalid(`${name}: must be a list`);
    if (value.length > limits.filterInMax)
      throw invalid(`${name}: at most ${limits.filterInMax} values`);
    if (!value.every((item) => fits(kind, item)))
      throw invalid(`${name}: every value must be a ${kind}`);
    return { field, operator, value: value as Scalar[] };
  }
  if (!fits(kind, value)) throw invalid(`${name}: must be a ${kind}`);
  return { field, operator, value };
}

/** @throws INVALID_INPUT naming the first field or operator that is not known here. */
export function parseFilter(collection: Collection, filter: Filter = {}): Test[] {
  const kinds: Record<string, FieldKind> = { ...collection.filters, ...metaFields };
  const tests: Test[] = [];
  for (const [field, condition] of Object.entries(filter)) {
    if (condition === undefined) continue;
    if (!Object.hasOwn(kinds, field))
      throw invalid(
        `${field}: ${collection.label} cannot be filtered by it; known: ${Object.keys(kinds).join(", ")}`,
      );
    const parts: Condition =
      typeof condition === "object" && condition !== null ? condition : { eq: condition };
    for (const [operator, value] of Object.entries(parts)) {
      if (value === undefined) continue;
      if (!(operators as readonly string[]).includes(operator))
        throw invalid(`${field}.${operator}: no such operator; known: ${operators.join(", ")}`);
      tests.push(checkOperand(field, kinds[field]!, operator as Operator, value));
    }
  }
  if (tests.length > limits.filterConditionsMax)
    throw invalid(`filter: at most ${limits.filterConditionsMax} conditions`);
  return tests;
}

/** @throws INVALID_INPUT naming the first field that lists cannot be sorted by. */
export function parseSort(collection: Collection, sort: ListQuery["sort"] = []): SortKey[] {
  const known = { ...collection.sorts, ...metaFields };
  const keys: SortKey[] = [];
  const parts = (typeof sort === "string" ? sort.split(",") : [...sort])
    .map((part) => part.trim())
    .filter(Boolean);
  for (const part of parts) {
    const descending = part.startsWith("-");
    const field = part.replace(/^[-+]/, "");
    if (!Object.hasOwn(known, field))
      throw invalid(
        `sort: ${collection.label} cannot be sorted by ${field}; known: ${Object.keys(known).join(", ")}`,
      );
    if (!keys.some((key) => key.field === field)) keys.push({ field, descending });
  }
  if (keys.length > limits.sortFieldsMax)
    throw invalid(`sort: at most ${limits.sortFieldsMax} fields`);
  if (keys.length === 0) keys.push({ field: "createdAt", descending: true });
  // Without a last word from the id, records that tie could change places from page to page.
  if (!keys.some((key) => key.field === "id"))
    keys.push({ field: "id", descending: keys.at(-1)!.descending });
  return keys;
}

/** Checks offset and limit. */
export function parseWindow(query: ListQuery): { offset: number; limit: number } {
  const { offset = 0, limit } = query;
  if (!Number.isSafeInteger(offset) || offset < 0)
    throw invalid("offset: must be a whole number from 0");
  if (!Number.isSafeInteger(limit) || limit < 0 || limit > limits.listRowsMax)
    throw invalid(`limit: must be a whole number from 0 to ${limits.listRowsMax}`);
  return { offset, limit };
}

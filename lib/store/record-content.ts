import { AppError } from "../errors.ts";
import { type Collection, type Doc, type FieldKind, limits, metaFields } from "./record-store.ts";
import { tokensOf } from "./search-text.ts";

/** What a record holds beside its envelope, and what of it is searched: the same for every engine. */

const isObject = (value: unknown): value is Doc =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const valueAt = (doc: Doc, path: string): unknown =>
  path.split(".").reduce<unknown>((value, part) => (value as Doc | null | undefined)?.[part], doc);

/** The tokens of a text field; a list of texts counts as one text. */
export function tokensAt(doc: Doc, path: string): string[] {
  const value = valueAt(doc, path);
  return tokensOf(typeof value === "string" ? value : Array.isArray(value) ? value.join(" ") : "");
}

const kindName: Record<FieldKind, string> = {
  text: "string",
  number: "number",
  boolean: "boolean",
};

/** Engines differ in what they make of a list or another kind where a filter expects one value: none is stored. */
function checkDeclared(doc: Doc, path: string, kind: FieldKind): void {
  let value: unknown = doc;
  for (const [depth, part] of path.split(".").entries()) {
    if (!isObject(value))
      throw new AppError("INVALID_INPUT", {
        reason: `${path.split(".").slice(0, depth).join(".")}: must be an object`,
      });
    value = value[part];
    if (value === undefined || value === null) return;
  }
  if (typeof value !== kindName[kind])
    throw new AppError("INVALID_INPUT", { reason: `${path}: must be a ${kindName[kind]}` });
}

/**
 * What is stored of a document: no fields of the envelope, no nulls at the top, plain JSON.
 * @throws INVALID_INPUT naming a declared field of another kind; PAYLOAD_TOO_LARGE.
 */
export function contentOf(collection: Collection, doc: Doc): { content: Doc; text: string } {
  const kept = Object.fromEntries(
    Object.entries(doc).filter(
      ([field, value]) =>
        value !== undefined && value !== null && !Object.hasOwn(metaFields, field),
    ),
  );
  const text = JSON.stringify(kept);
  if (Buffer.byteLength(text) > limits.recordBytesMax)
    throw new AppError("PAYLOAD_TOO_LARGE", { limit: `${limits.recordBytesMax} bytes a record` });
  const content = JSON.parse(text) as Doc;
  for (const [field, kind] of Object.entries({ ...collection.sorts, ...collection.filters }))
    if (!Object.hasOwn(metaFields, field)) checkDeclared(content, field, kind);
  return { content, text };
}

/** A document of an older version, brought to the declared one. */
export function migrated(collection: Collection, stored: Doc, fromVersion: number): Doc {
  let doc = stored;
  for (let version = fromVersion + 1; version <= collection.schemaVersion; version += 1)
    doc = collection.migrations[version]!(doc);
  return doc;
}

import { AppError } from "../errors.ts";

/**
 * JSON documents as MongoDB and mongoose can keep them, unchanged on the way back. Names of fields that either
 * would take for something else (`$set`, `a.b`, `_bsontype`, `constructor`) are percent-coded. Pure.
 */

/** MongoDB refuses documents of more than 100 levels; the envelope takes two. */
const LEVELS_MAX = 96;

/** Read as code or types by BSON and mongoose, whatever their value. */
const TAKEN = new Set([
  "__proto__",
  "constructor",
  "prototype",
  "toBSON",
  "toJSON",
  "toObject",
  "_bsontype",
  "_doc",
  "isMongooseBuffer",
]);

const code = (char: string) => `%${char.charCodeAt(0).toString(16).padStart(2, "0").toUpperCase()}`;

/** The name that a field is stored under. */
export function storedKey(key: string): string {
  if (key === "") return "%";
  if (TAKEN.has(key)) return code(key[0]!) + key.slice(1);
  return key.toWellFormed().replace(/[%.\0]|^\$/g, code);
}

const givenKey = (stored: string): string =>
  stored === "%"
    ? ""
    : stored.replace(/%([\dA-F]{2})/g, (_, hex: string) =>
        String.fromCharCode(Number.parseInt(hex, 16)),
      );

/** @throws INVALID_INPUT when it is nested too deeply. */
export function toStored(value: unknown, level = 1): unknown {
  // MongoDB's text is UTF-8, which has no half of a surrogate pair.
  if (typeof value === "string") return value.toWellFormed();
  if (typeof value !== "object" || value === null) return value;
  if (level > LEVELS_MAX)
    throw new AppError("INVALID_INPUT", { reason: `nested deeper than ${LEVELS_MAX} levels` });
  if (Array.isArray(value)) return value.map((item) => toStored(item, level + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [storedKey(key), toStored(item, level + 1)]),
  );
}

export function fromStored(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(fromStored);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [givenKey(key), fromStored(item)]),
  );
}

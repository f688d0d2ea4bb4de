import { pathText } from "../../lib/issues.ts";

/** Fields that hold a source wherever they stand in a timeline or task, if their value is text. */
const sourceFields = new Set<unknown>(["src", "audio", "music"]);

/**
 * Every media file that a request names, with the path of the field that names it.
 */
export function namedSources(
  value: unknown,
  path: readonly PropertyKey[] = [],
): { clip: string; src: string }[] {
  if (value === null || typeof value !== "object") return [];
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return entries.flatMap(([key, part]) =>
    sourceFields.has(key) && typeof part === "string"
      ? [{ clip: pathText([...path, key]), src: part }]
      : namedSources(part, [...path, key]),
  );
}

/** The same request with each source replaced. */
export function replaceSources<T>(value: T, replace: (src: string) => string): T {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((part) => replaceSources(part, replace)) as T;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [
      key,
      sourceFields.has(key) && typeof part === "string"
        ? replace(part)
        : replaceSources(part, replace),
    ]),
  ) as T;
}

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

/** What is compared of something that moved: JSON with its fields in the order of their names. */
export function canonical(value: unknown): string {
  return JSON.stringify(ordered(value));
}

/** Halves of surrogate pairs have no form in UTF-8: neither in a file nor in the database do they stay as they were. */
function ordered(value: unknown): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(ordered);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]): [string, unknown] => [key.toWellFormed(), ordered(item)])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}

/** Top-level fields that differ, for people. */
export function differingFields(source: object, target: object): string[] {
  const names = new Set([...Object.keys(source), ...Object.keys(target)]);
  const value = (of: object, name: string) =>
    canonical((of as Record<string, unknown>)[name] ?? null);
  return [...names].filter((name) => value(source, name) !== value(target, name)).sort();
}

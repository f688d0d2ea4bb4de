import { AppError } from "../../lib/errors.ts";
import { filterText } from "./input-filter.policy.ts";

export type FieldValue = string | string[];

const FIELDS_MAX = 500;
const forbidden = new Set(["__proto__", "constructor", "prototype"]);

/** Names that would reach into an object's prototype are refused, not dropped: nobody sends them by accident. */
export function checkName(name: string, where: string): void {
  if (forbidden.has(name))
    throw new AppError("INVALID_INPUT", { reason: `${where}: the name ${name} is not allowed` });
}

/**
 * Fields of a query string or a form. A repeated name (or one written `name[]`) becomes a list, so that
 * the schema decides whether that is right.
 */
export function fieldsOf(
  pairs: Iterable<readonly [string, string]>,
  { filter, where }: { filter: boolean; where: string },
): Record<string, FieldValue> {
  const fields = new Map<string, FieldValue>();
  let count = 0;
  for (const [rawName, rawValue] of pairs) {
    count += 1;
    if (count > FIELDS_MAX)
      throw new AppError("INVALID_INPUT", { reason: `${where}: more than ${FIELDS_MAX} fields` });
    const listed = rawName.endsWith("[]");
    const name = listed ? rawName.slice(0, -2) : rawName;
    checkName(name, where);
    const value = filter ? filterText(rawValue) : rawValue;
    const earlier = fields.get(name);
    if (earlier === undefined) fields.set(name, listed ? [value] : value);
    else fields.set(name, [...[earlier].flat(), value]);
  }
  return Object.fromEntries(fields);
}

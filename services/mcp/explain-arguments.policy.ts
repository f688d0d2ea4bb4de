import type { z } from "zod";
import { pathText } from "../../lib/issues.ts";
import { nearestName } from "./nearest-name.policy.ts";

type JsonSchema = { [name: string]: unknown };
type Issue = z.core.$ZodIssue;

export interface Explained {
  /** Dotted path, list positions in brackets; "(arguments)" for the arguments as a whole. */
  path: string;
  /** What was wrong there and what would be right. */
  message: string;
}

const asList = (value: unknown): JsonSchema[] => (Array.isArray(value) ? value : []);

function resolve(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let current = schema;
  // A chain of references in a schema of ours is short; the bound guards against a circle.
  for (let hop = 0; hop < 16 && typeof current["$ref"] === "string"; hop += 1) {
    const parts = (current["$ref"] as string).replace(/^#\/?/, "").split("/").filter(Boolean);
    current = parts.reduce<JsonSchema>(
      (part, key) => (part?.[key] as JsonSchema | undefined) ?? {},
      root,
    );
  }
  return current;
}

/** The alternatives that a value may have at one place, references followed. */
function alternatives(schema: JsonSchema, root: JsonSchema): JsonSchema[] {
  const own = resolve(schema, root);
  const parts = [...asList(own["anyOf"]), ...asList(own["oneOf"]), ...asList(own["allOf"])];
  return parts.length === 0 ? [own] : parts.flatMap((part) => alternatives(part, root));
}

/** Of several alternatives those whose constant fields (`type: "video"`) agree with what was given. */
function fitting(schemas: JsonSchema[], value: unknown, root: JsonSchema): JsonSchema[] {
  if (value === null || typeof value !== "object") return schemas;
  const agreeing = schemas.filter((schema) =>
    Object.entries((schema["properties"] ?? {}) as Record<string, JsonSchema>).every(
      ([name, property]) => {
        const { const: constant } = resolve(property, root);
        const given = (value as Record<string, unknown>)[name];
        return constant === undefined || given === undefined || constant === given;
      },
    ),
  );
  return agreeing.length > 0 ? agreeing : schemas;
}

/** Names that are allowed at a path of the arguments. */
export function allowedNames(
  root: JsonSchema,
  path: readonly PropertyKey[],
  given: unknown,
): string[] {
  let schemas = fitting(alternatives(root, root), given, root);
  let value = given;
  for (const key of path) {
    value = (value as Record<PropertyKey, unknown> | undefined)?.[key];
    const next = schemas.flatMap((schema) => {
      const properties = (schema["properties"] ?? {}) as Record<string, JsonSchema>;
      const inner =
        typeof key === "number"
          ? ((asList(schema["prefixItems"])[key] ?? schema["items"]) as JsonSchema | undefined)
          : (properties[String(key)] ?? (schema["additionalProperties"] as JsonSchema | undefined));
      return inner && typeof inner === "object" ? alternatives(inner, root) : [];
    });
    schemas = fitting(next, value, root);
  }
  return [...new Set(schemas.flatMap((schema) => Object.keys(schema["properties"] ?? {})))];
}

const shown = (value: unknown): string => {
  const text =
    (typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : JSON.stringify(value)) ??
    "nothing";
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
};

const valueAt = (root: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((value, key) => (value as Record<PropertyKey, unknown>)?.[key], root);

const depth = (issues: readonly Issue[]) =>
  Math.max(0, ...issues.map((issue) => issue.path.length));

/** The issues of the alternative of a union that was probably meant: the one that came furthest. */
function flatten(issues: readonly Issue[], prefix: readonly PropertyKey[] = []): Issue[] {
  return issues.flatMap((issue) => {
    const path = [...prefix, ...issue.path];
    if (issue.code === "invalid_union" && issue.errors.length > 0) {
      const nearest = [...issue.errors].sort(
        (a, b) => depth(b) - depth(a) || a.length - b.length,
      )[0]!;
      if (depth(nearest) > 0 || issue.errors.length === 1) return flatten(nearest, path);
    }
    return [{ ...issue, path: path as (string | number)[] }];
  });
}

function choiceOf(values: readonly string[], value: unknown): string {
  if (values.length === 1) return `must be ${values[0]}, not ${shown(value)}`;
  const meant = typeof value === "string" ? nearestName(value, values) : undefined;
  const given = value === undefined ? "it is missing" : `not ${shown(value)}`;
  return `must be one of ${values.join(", ")}; ${given}${meant ? `; did you mean "${meant}"?` : ""}`;
}

function explainOne(issue: Issue, given: unknown, schema: JsonSchema): Explained[] {
  const path = pathText(issue.path) || "(arguments)";
  const value = valueAt(given, issue.path);
  if (issue.code === "unrecognized_keys") {
    const allowed = allowedNames(schema, issue.path, given);
    return issue.keys.map((key) => {
      const meant = nearestName(key, allowed);
      return {
        path: pathText([...issue.path, key]),
        message: `unknown field; ${meant ? `did you mean "${meant}"? ` : ""}allowed here: ${allowed.join(", ")}`,
      };
    });
  }
  if (issue.code === "invalid_value")
    return [{ path, message: choiceOf(issue.values.map(String), value) }];
  if (issue.code === "invalid_type" && value === undefined)
    return [{ path, message: `is missing; it must be ${issue.expected}` }];
  const options = (issue as { options?: readonly unknown[] }).options;
  if (issue.code === "invalid_union" && options)
    return [{ path, message: choiceOf(options.map(String), value) }];
  const isPlain = value === null || typeof value !== "object";
  return [{ path, message: isPlain ? `${issue.message} (given: ${shown(value)})` : issue.message }];
}

/** Everything that is wrong with the arguments of a tool, for an agent that wants to correct them. */
export function explainArguments(
  issues: readonly Issue[],
  given: unknown,
  schema: JsonSchema,
  max: number,
): { issues: Explained[]; more: number } {
  const flat = flatten(issues);
  const explained: Explained[] = [];
  for (const issue of flat) {
    if (explained.length >= max) break;
    const shortened =
      issue.code === "unrecognized_keys" ? { ...issue, keys: issue.keys.slice(0, max) } : issue;
    explained.push(...explainOne(shortened, given, schema));
  }
  const total = flat.reduce(
    (sum, issue) => sum + (issue.code === "unrecognized_keys" ? issue.keys.length : 1),
    0,
  );
  return { issues: explained.slice(0, max), more: Math.max(0, total - max) };
}

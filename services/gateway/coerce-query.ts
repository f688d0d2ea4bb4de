import { z } from "zod";

type Kind = "number" | "boolean" | "array" | "text";
type JsonSchema = {
  type?: string | string[];
  properties?: Record<string, JsonSchema>;
  anyOf?: JsonSchema[];
  items?: JsonSchema;
};

const kinds = new WeakMap<z.ZodType, Map<string, { kind: Kind; item: Kind }>>();

function kindOf(schema: JsonSchema): Kind {
  const types = [schema.type ?? [], ...(schema.anyOf ?? []).map((part) => part.type ?? [])].flat();
  if (types.includes("string")) return "text";
  if (types.includes("number") || types.includes("integer")) return "number";
  if (types.includes("boolean")) return "boolean";
  if (types.includes("array")) return "array";
  return "text";
}

function fieldsOf(input: z.ZodType) {
  let fields = kinds.get(input);
  if (!fields) {
    const schema = z.toJSONSchema(input, { io: "input", unrepresentable: "any" }) as JsonSchema;
    fields = new Map(
      Object.entries(schema.properties ?? {}).map(([name, property]) => [
        name,
        { kind: kindOf(property), item: kindOf(property.items ?? {}) },
      ]),
    );
    kinds.set(input, fields);
  }
  return fields;
}

function convert(value: unknown, kind: Kind): unknown {
  if (typeof value !== "string") return value;
  if (kind === "number" && value.trim() !== "" && Number.isFinite(Number(value)))
    return Number(value);
  if (kind === "boolean" && (value === "true" || value === "1")) return true;
  if (kind === "boolean" && (value === "false" || value === "0")) return false;
  return value;
}

function isEmpty(fields: object): boolean {
  for (const _name in fields) return false;
  return true;
}

/**
 * Query strings and path parts are text: numbers, booleans and lists (`a,b` or repeated) become what the
 * schema wants. What cannot be converted stays as it is, so that validation names it.
 */
export function coerceQuery(
  input: z.ZodType,
  query: Record<string, unknown>,
): Record<string, unknown> {
  if (isEmpty(query)) return {};
  const fields = fieldsOf(input);
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => {
      const field = fields.get(name);
      if (!field) return [name, value];
      if (field.kind !== "array") return [name, convert(value, field.kind)];
      const parts = Array.isArray(value)
        ? value
        : typeof value === "string"
          ? value.split(",")
          : [value];
      return [name, parts.map((part) => convert(part, field.item))];
    }),
  );
}

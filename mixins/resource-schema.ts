import { z } from "zod";
import { type FieldKind, type Filter, metaFields } from "../lib/store/record-store.ts";

/** Schemas of a resource's actions, derived from the schema of its fields. */

export const resourceLimits = {
  pageMax: 100_000,
  pageSizeDefault: 20,
  pageSizeMax: 200,
  searchCharsMax: 200,
  removeIdsMax: 200,
} as const;

export const RecordId = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, "must be an id: 1 to 64 letters, digits, dashes, underscores");

const metaShape = {
  id: RecordId,
  version: z
    .int()
    .describe("Rises with each change; send it back to change only what you have read"),
  createdAt: z.int().describe("Milliseconds since the epoch"),
  updatedAt: z.int().describe("Milliseconds since the epoch"),
};

const wrappers = [z.ZodDefault, z.ZodPrefault, z.ZodOptional, z.ZodNullable] as const;

/** The schema of a field's value itself, without default, optional and nullable around it. */
export function valueSchema(schema: z.core.$ZodType): z.ZodType {
  let inner = schema as z.ZodType;
  while (wrappers.some((wrapper) => inner instanceof wrapper))
    inner = (inner as z.ZodOptional<z.ZodType>).unwrap() as z.ZodType;
  return inner;
}

const hasDefault = (schema: z.core.$ZodType): boolean => {
  let inner = schema as z.ZodType;
  while (wrappers.some((wrapper) => inner instanceof wrapper)) {
    if (inner instanceof z.ZodDefault || inner instanceof z.ZodPrefault) return true;
    inner = (inner as z.ZodOptional<z.ZodType>).unwrap() as z.ZodType;
  }
  return false;
};

/** Kind of a field's values in filters and sorts. */
export function kindOfField(shape: z.core.$ZodShape, field: string): FieldKind {
  const schema = shape[field];
  if (!schema) throw new Error(`${field} is no field of this resource`);
  const { type } = z.toJSONSchema(valueSchema(schema), { io: "output", unrepresentable: "any" });
  if (type === "string") return "text";
  if (type === "number" || type === "integer") return "number";
  if (type === "boolean") return "boolean";
  throw new Error(`${field} is no text, number or boolean: lists cannot filter or sort by it`);
}

export const kindsOf = (shape: z.core.$ZodShape, fields: readonly string[]) =>
  Object.fromEntries(fields.map((field) => [field, kindOfField(shape, field)]));

export const createSchema = (fields: z.ZodObject, own: readonly string[]): z.ZodType =>
  z.strictObject({
    ...omit(fields.shape, own),
    id: RecordId.optional().describe(
      "An id of your own makes it safe to repeat: the second time answers 409",
    ),
  });

/** Every field may be left out, which leaves it as it is; one that is optional may be null, which removes it. */
export function updateSchema(fields: z.ZodObject, fixed: readonly string[]): z.ZodType {
  const shape = Object.fromEntries(
    Object.entries(omit(fields.shape, fixed)).map(([field, schema]) => {
      const inner = valueSchema(schema);
      const removable = (schema as z.ZodType).isOptional() && !hasDefault(schema);
      const described = (schema as z.ZodType).description;
      const wrapped = removable ? inner.nullable().optional() : inner.optional();
      return [field, described ? wrapped.describe(described) : wrapped];
    }),
  );
  return z.strictObject({
    ...shape,
    id: RecordId,
    version: z.int().min(1).optional().describe("Change it only if it still has this version"),
  });
}

/** A record as answers show it. */
export const recordSchema = (fields: z.ZodObject, hidden: readonly string[]) =>
  z.object({ ...omit(fields.shape, hidden), ...metaShape });

export const pageSchema = (record: z.ZodType) =>
  z.object({
    rows: z.array(record),
    total: z.int().describe("Records that match, on all pages"),
    page: z.int(),
    pageSize: z.int(),
    totalPages: z.int(),
  });

const separator = ".";
const ranges = ["gt", "gte", "lt", "lte"] as const;

function filterShape(field: string, value: z.ZodType, kind: FieldKind): Record<string, z.ZodType> {
  const named = (operator: string) => `${field}${separator}${operator}`;
  const shape: Record<string, z.ZodType> = {
    [field]: value.optional().describe(`${field} is this`),
    [named("ne")]: value.optional().describe(`${field} is not this`),
    [named("in")]: z
      .array(value)
      .min(1)
      .max(200)
      .optional()
      .describe(`${field} is one of these, comma-separated`),
    [named("exists")]: z.boolean().optional().describe(`${field} is set`),
  };
  if (kind === "boolean") return shape;
  const bound = kind === "number" ? z.number() : z.string().max(1000);
  for (const operator of ranges) shape[named(operator)] = bound.optional();
  return shape;
}

export interface ListFields {
  filters: readonly string[];
  sorts: readonly string[];
  search: readonly string[];
}

/** Parameters of a list: window, order, search and `field`, `field.ne`, `field.gte` ... of the declared fields. */
export function listSchema(fields: z.ZodObject, { filters, sorts, search }: ListFields) {
  const shape: Record<string, z.ZodType> = {};
  for (const field of filters) {
    const kind = kindOfField(fields.shape, field);
    const value = valueSchema(fields.shape[field]!);
    const plain =
      kind === "number" ? z.number() : kind === "boolean" ? z.boolean() : z.string().max(1000);
    Object.assign(shape, filterShape(field, value instanceof z.ZodEnum ? value : plain, kind));
  }
  shape["id.in"] = z.array(RecordId).min(1).max(resourceLimits.pageSizeMax).optional();
  for (const field of ["createdAt", "updatedAt"])
    Object.assign(shape, filterShape(field, z.int(), "number"));
  const sortable = [...new Set([...sorts, ...Object.keys(metaFields)])];
  return z.strictObject({
    page: z.int().min(1).max(resourceLimits.pageMax).default(1),
    pageSize: z
      .int()
      .min(1)
      .max(resourceLimits.pageSizeMax)
      .default(resourceLimits.pageSizeDefault),
    sort: z
      .string()
      .max(200)
      .default("-createdAt")
      .describe(`Fields, comma-separated, a dash for descending: ${sortable.join(", ")}`),
    ...(search.length > 0
      ? {
          search: z
            .string()
            .max(resourceLimits.searchCharsMax)
            .optional()
            .describe(`Words that all occur in ${search.join(", ")}`),
        }
      : {}),
    ...shape,
  });
}

const windowNames = new Set(["page", "pageSize", "sort", "search"]);

/** The store's filter from a list's parameters. */
export function filterOf(params: Record<string, unknown>): Filter {
  const filter: Record<string, Record<string, unknown>> = {};
  for (const [name, value] of Object.entries(params)) {
    if (windowNames.has(name) || value === undefined) continue;
    const [field, operator = "eq"] = name.split(separator) as [string, string?];
    filter[field] = { ...filter[field], [operator]: value };
  }
  return filter as Filter;
}

export const removeSchema = z
  .strictObject({
    id: RecordId.optional(),
    ids: z.array(RecordId).min(1).max(resourceLimits.removeIdsMax).optional(),
  })
  .refine((params) => (params.id === undefined) !== (params.ids === undefined), {
    error: "give either id or ids",
  });

export const removedSchema = z.object({
  removed: z.int().describe("How many were removed"),
  ids: z.array(z.string()).describe("Which; ids of a list that did not exist are not among them"),
});

const omit = <S extends z.core.$ZodShape>(shape: S, names: readonly string[]) =>
  Object.fromEntries(Object.entries(shape).filter(([name]) => !names.includes(name)));

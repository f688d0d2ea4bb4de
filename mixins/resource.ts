import { z } from "zod";
import { type ActionContract, action, type Realm, type ServiceContract } from "../lib/contract.ts";
import { type Collection, defineCollection, type RecordMeta } from "../lib/store/record-store.ts";
import {
  createSchema,
  kindsOf,
  listSchema,
  pageSchema,
  RecordId,
  recordSchema,
  removedSchema,
  removeSchema,
  updateSchema,
} from "./resource-schema.ts";

type Access = "public" | readonly Realm[];

/** Route forms of a resource. `read`: lists and single records; `replace` is not among them: PATCH changes. */
export type ResourceVerb = "read" | "create" | "update" | "remove";

export interface ResourceSpec<
  N extends string,
  F extends z.ZodObject,
  X extends Record<string, ActionContract>,
> {
  /** `module.resource`, also the Moleculer service's name. */
  service: N;
  /** Heading in the API documentation. */
  about: string;
  /** How people call one record: `agent app`. */
  label: string;
  path: `/${string}`;
  /** Fields of a record, with defaults; id, version and times are added. */
  fields: F;
  access: { read: Access; write: Access };
  /** Fields that lists filter by, sort by and search in. */
  filters?: readonly (keyof F["shape"] & string)[];
  sorts?: readonly (keyof F["shape"] & string)[];
  search?: readonly (keyof F["shape"] & string)[];
  /** Fields that cannot change after creation. */
  immutable?: readonly (keyof F["shape"] & string)[];
  /** Fields that only the service itself sets. */
  internal?: readonly (keyof F["shape"] & string)[];
  /** Fields that no answer shows. */
  hidden?: readonly (keyof F["shape"] & string)[];
  /** Actors of these realms see and change only records whose `field` names them (`realm:id`). */
  ownership?: { field: keyof F["shape"] & string; realms: readonly Realm[] };
  /**
   * Single records and lists are kept in the node's cache until a record of the resource changes. What a hook adds to a
   * record that is shown is not kept.
   */
  cached?: boolean;
  /** Route forms that are served; all unless told. The others stay internal actions. */
  serve?: readonly ResourceVerb[];
  schemaVersion?: number;
  migrations?: Collection["migrations"];
  /** Further actions of the same service. */
  actions?: X;
}

type FieldsOf<F extends z.ZodObject> = z.output<F>;
export type RecordOf<F extends z.ZodObject> = FieldsOf<F> & RecordMeta;
export type CreateOf<F extends z.ZodObject> = z.input<F> & { id?: string };
/** `id`, the `version` that it must have, and fields to set; null removes one. */
export type UpdateOf<F extends z.ZodObject> = {
  [K in keyof FieldsOf<F>]?: FieldsOf<F>[K] | null;
} & { id: string; version?: number };
export interface PageOf<R> {
  rows: R[];
  total: number;
  page: number;
  pageSize: number;
  totalPages: number;
}
export interface ListParams {
  page?: number;
  /** 20 unless told, at most 200. */
  pageSize?: number;
  sort?: string;
  search?: string;
  /** `field`, `field.ne`, `field.in`, `field.gt`, `field.gte`, `field.lt`, `field.lte`, `field.exists`. */
  [filter: string]: unknown;
}
export interface RemoveParams {
  id?: string;
  ids?: string[];
}

type Typed<I, O> = ActionContract<z.ZodType<I, I>, z.ZodType<O, O>>;
export type ResourceActions<F extends z.ZodObject> = {
  read: Typed<ListParams & { id?: string }, PageOf<RecordOf<F>> | RecordOf<F>>;
  list: Typed<ListParams, PageOf<RecordOf<F>>>;
  get: Typed<{ id: string }, RecordOf<F>>;
  create: ActionContract<
    z.ZodType<FieldsOf<F> & { id?: string }, CreateOf<F>>,
    z.ZodType<RecordOf<F>, RecordOf<F>>
  >;
  update: Typed<UpdateOf<F>, RecordOf<F>>;
  remove: Typed<RemoveParams, { removed: number; ids: string[] }>;
};

export interface Resource<
  N extends string = string,
  F extends z.ZodObject = z.ZodObject,
  X extends Record<string, ActionContract> = Record<string, ActionContract>,
> {
  spec: ResourceSpec<N, F, X>;
  collection: Collection;
  contract: ServiceContract<N, ResourceActions<F> & X>;
  /** Schema of a record in answers, for contracts of further actions. */
  record: z.ZodType<RecordOf<F>, RecordOf<F>>;
}

const listHelp = [
  "`page` counts from 1. A filter is `field=value`; ranges and other tests are written with a dot:",
  "`createdAt.gte=1700000000000`, `status.in=a,b`, `status.ne=a`, `agentId.exists=true`",
  "(eq, ne, in, gt, gte, lt, lte, exists). Fields that are not listed here are refused.",
  "With `id` the answer is that one record.",
].join(" ");

/** The six actions with their route forms. */
function standardActions(
  spec: ResourceSpec<string, z.ZodObject, Record<string, ActionContract>>,
  record: z.ZodType,
) {
  const { fields, path, label, access } = spec;
  const { filters = [], sorts = [], search = [], internal = [] } = spec;
  const served = new Set(spec.serve ?? ["read", "create", "update", "remove"]);
  const page = pageSchema(record);
  const list = listSchema(fields, { filters, sorts, search });
  const open = (
    verb: ResourceVerb,
    rest: readonly `${"GET" | "POST" | "PATCH" | "DELETE"} /${string}`[],
  ) =>
    served.has(verb)
      ? { rest, access: verb === "read" ? access.read : access.write }
      : { access: [] };
  return {
    read: action({
      summary: `List ${label}s`,
      description: listHelp,
      input: list.extend({ id: RecordId.optional().describe("Answers this one record") }),
      output: z.union([page, record]),
      errors: ["NOT_FOUND"],
      idempotent: true,
      ...open("read", [`GET ${path}`]),
    }),
    list: action({
      summary: `List ${label}s, for other services`,
      input: list,
      output: page,
      idempotent: true,
      access: served.has("read") ? access.read : [],
    }),
    get: action({
      summary: `One ${label}`,
      input: z.strictObject({ id: RecordId }),
      output: record,
      errors: ["NOT_FOUND"],
      idempotent: true,
      ...open("read", [`GET ${path}/{id}`]),
    }),
    create: action({
      summary: `Create one ${label}`,
      input: createSchema(fields, internal),
      output: record,
      errors: ["CONFLICT"],
      ...open("create", [`POST ${path}`]),
    }),
    update: action({
      summary: `Change fields of one ${label}`,
      description:
        "Fields that are left out stay as they are; null removes an optional one. With `version` it is changed only if nobody else changed it since.",
      input: updateSchema(fields, [...internal, ...(spec.immutable ?? [])]),
      output: record,
      errors: ["NOT_FOUND", "VERSION_CONFLICT"],
      ...open("update", [`PATCH ${path}/{id}`, `PATCH ${path}`]),
    }),
    remove: action({
      summary: `Remove ${label}s`,
      description: "One by `id`, or up to 200 by `ids`, in the query or the body.",
      input: removeSchema,
      output: removedSchema,
      errors: ["NOT_FOUND"],
      ...open("remove", [`DELETE ${path}/{id}`, `DELETE ${path}`]),
    }),
  };
}

/**
 * A resource from its schema, path and access: the contract with every route form of the platform document's
 * section 4 (`R4`), and the collection that its records live in. `implementResource` gives the handlers.
 */
export function defineResource<
  const N extends string,
  F extends z.ZodObject,
  X extends Record<string, ActionContract> = Record<never, never>,
>(spec: ResourceSpec<N, F, X>): Resource<N, F, X> {
  const { fields, label, filters = [], sorts = [], search = [], hidden = [] } = spec;
  if (spec.ownership && !filters.includes(spec.ownership.field))
    throw new Error(`${spec.service}: ${spec.ownership.field} must be among its filters`);
  const record = recordSchema(fields, hidden);
  const actions = {
    ...standardActions(
      spec as unknown as ResourceSpec<string, z.ZodObject, Record<string, ActionContract>>,
      record,
    ),
    ...spec.actions,
  };
  return {
    spec,
    record: record as never,
    contract: {
      name: spec.service,
      about: spec.about,
      actions: actions as unknown as ResourceActions<F> & X,
    },
    collection: defineCollection({
      name: spec.service.replaceAll(".", "_"),
      label,
      filters: kindsOf(fields.shape, filters),
      sorts: kindsOf(fields.shape, sorts),
      search,
      schemaVersion: spec.schemaVersion,
      migrations: spec.migrations,
    }),
  };
}

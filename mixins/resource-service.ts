import { createHash } from "node:crypto";
import type { Context } from "moleculer";
import type { z } from "zod";
import { recordCacheOf } from "../lib/cache/record-cache.ts";
import type { ActionContract, Actor, ServiceContract } from "../lib/contract.ts";
import { AppError } from "../lib/errors.ts";
import {
  type ActionContext,
  implementService,
  type ServiceDefinition,
  type ServiceHost,
  type ServiceImplementation,
} from "../lib/service.ts";
import type { Doc, Filter, RecordStore, StoredRecord } from "../lib/store/record-store.ts";
import { type RecordService, recordsMixin } from "./records.mixin.ts";
import type { ListParams, PageOf, RecordOf, RemoveParams, Resource } from "./resource.ts";
import { filterOf } from "./resource-schema.ts";

/** What every handler of a resource's service gets as its state. */
export interface ResourceState<F extends z.ZodObject> {
  store: RecordStore<z.output<F> & Doc>;
  /** Takes hidden fields out of a record. */
  visible(record: StoredRecord): RecordOf<F>;
}

type AnyContext = ActionContext<Record<string, unknown>>;

/** What a resource does beside storing; each may throw AppError to refuse. */
export interface ResourceHooks<F extends z.ZodObject> {
  /** Answers what is stored. */
  beforeCreate?: (
    doc: z.output<F> & { id?: string },
    ctx: AnyContext,
    host: ServiceHost,
  ) => Promise<z.output<F> & { id?: string }> | (z.output<F> & { id?: string });
  /** Answers the fields to set. */
  beforeUpdate?: (
    patch: Doc,
    current: RecordOf<F>,
    ctx: AnyContext,
    host: ServiceHost,
  ) => Promise<Doc> | Doc;
  beforeRemove?: (
    ids: readonly string[],
    ctx: AnyContext,
    host: ServiceHost,
  ) => Promise<void> | void;
  /** Last change to a single record that is about to be shown. */
  afterGet?: (
    record: RecordOf<F>,
    ctx: AnyContext,
    host: ServiceHost,
  ) => Promise<RecordOf<F>> | RecordOf<F>;
}

export interface ResourceImplementation<
  N extends string,
  F extends z.ZodObject,
  X extends Record<string, ActionContract>,
> {
  hooks?: ResourceHooks<F>;
  /** Handlers of the resource's further actions. */
  handlers?: ServiceImplementation<ServiceContract<N, X>, ResourceState<F>>["handlers"];
  dependencies?: readonly string[];
}

const ownerOf = (actor: Actor) => `${actor.realm}:${actor.id}`;

/** Handlers of a resource on moleculer-db's mixin; the result goes into `services/catalogue.ts`. */
export function implementResource<
  N extends string,
  F extends z.ZodObject,
  X extends Record<string, ActionContract>,
>(
  resource: Resource<N, F, X>,
  { hooks = {}, handlers, dependencies }: ResourceImplementation<N, F, X> = {},
): ServiceDefinition {
  const { collection } = resource;
  const { cached, service } = resource.spec;
  const definition = implementService(resource.contract as unknown as ServiceContract, {
    dependencies,
    mixins: (env) => [recordsMixin(env, collection, cached ? service : undefined)],
    start: ({ service }): ResourceState<F> => ({
      store: (service as RecordService).adapter.store as unknown as ResourceState<F>["store"],
      visible: (record) => visible(resource, record),
    }),
    handlers: {
      ...standardHandlers(
        resource as unknown as Resource,
        hooks as unknown as ResourceHooks<z.ZodObject>,
      ),
      ...(handlers as object),
    } as never,
  });
  return { ...definition, collections: [collection] };
}

function visible<F extends z.ZodObject>(
  resource: { spec: { hidden?: readonly string[] } },
  record: object,
): RecordOf<F> {
  const hidden = resource.spec.hidden ?? [];
  return Object.fromEntries(
    Object.entries(record).filter(([field]) => !hidden.includes(field)),
  ) as RecordOf<F>;
}

/** The part of moleculer-db's service that is used here. */
interface DbMethods {
  _list(ctx: unknown, params: object): Promise<PageOf<StoredRecord>>;
  _create(ctx: unknown, doc: Doc): Promise<StoredRecord>;
  _update(ctx: unknown, params: Doc): Promise<StoredRecord>;
  entityChanged(type: string, docs: unknown, ctx: unknown, raw: unknown): Promise<void>;
}

type State = ResourceState<z.ZodObject>;

/** Whose records an actor may see and change. */
interface Ownership {
  /** Fields that a bound actor's records have; empty for actors who see all. */
  scope(ctx: AnyContext): Filter;
  /** The record, if there is one for this actor: somebody else's is answered like one that does not exist. */
  owned(ctx: AnyContext, state: State, id: string): Promise<StoredRecord>;
  /** Those of the ids whose records are the actor's. */
  ownedIds(ctx: AnyContext, state: State, ids: readonly string[]): Promise<readonly string[]>;
}

function ownershipOf(resource: Resource): Ownership {
  const { ownership, label } = resource.spec;
  const boundTo = ({ meta: { actor } }: AnyContext): string | undefined =>
    ownership && actor && ownership.realms.includes(actor.realm) ? ownerOf(actor) : undefined;
  const belongs = (record: StoredRecord, owner: string | undefined) =>
    owner === undefined || record[ownership!.field] === owner;
  return {
    scope(ctx) {
      const owner = boundTo(ctx);
      return owner === undefined ? {} : { [ownership!.field]: owner };
    },
    async owned(ctx, state, id) {
      const record = await state.store.get(id);
      if (!record || !belongs(record, boundTo(ctx)))
        throw new AppError("NOT_FOUND", { what: `${label} ${id}` });
      return record;
    },
    async ownedIds(ctx, state, ids) {
      const owner = boundTo(ctx);
      if (owner === undefined) return ids;
      const records = await state.store.getMany(ids);
      return records.filter((record) => belongs(record, owner)).map((record) => record.id);
    },
  };
}

/** Longer keys are hashed. */
const KEY_CHARS_MAX = 200;

/** Reads through the broker's cache, where the resource is declared `cached`; `ctx.meta.$cache: false` goes past it. */
function cachedReads({ spec: { cached, service } }: Resource) {
  return {
    through<T>(ctx: AnyContext, dependsOn: object, load: () => Promise<T>): Promise<T> {
      const cache = cached && ctx.meta["$cache"] !== false ? recordCacheOf(ctx.broker) : undefined;
      if (!cache) return load();
      // Parameters come in the order of their schema; in another order they would only be asked for anew.
      const text = JSON.stringify(dependsOn);
      const key =
        text.length <= KEY_CHARS_MAX ? text : createHash("sha256").update(text).digest("base64url");
      return cache.through(service, key, load);
    },
  };
}

function standardHandlers(resource: Resource, hooks: ResourceHooks<z.ZodObject>) {
  const { scope, owned, ownedIds } = ownershipOf(resource);
  const { through } = cachedReads(resource);
  const db = (host: ServiceHost) => host.service as unknown as DbMethods;
  const context = (ctx: AnyContext) => ctx as unknown as Context;

  const list = async (ctx: AnyContext, state: State, host: ServiceHost) => {
    const { page = 1, pageSize = 20, sort, search } = ctx.params as ListParams;
    const { id: _, ...params } = ctx.params;
    const query = {
      query: { ...filterOf(params), ...scope(ctx) },
      sort,
      search,
      page,
      pageSize,
      limit: pageSize,
      offset: (page - 1) * pageSize,
    };
    // Whose records are listed is part of the query.
    return through(ctx, query, async () => {
      const found = await db(host)._list(context(ctx), query);
      return { ...found, rows: found.rows.map((record) => state.visible(record)) };
    });
  };
  const get = async (ctx: AnyContext, state: State, host: ServiceHost) => {
    const id = ctx.params["id"] as string;
    const key = { id, ...scope(ctx) };
    const record = await through(ctx, key, async () => state.visible(await owned(ctx, state, id)));
    return hooks.afterGet ? hooks.afterGet(record, ctx, host) : record;
  };
  return {
    list,
    get,
    read: (ctx: AnyContext, state: State, host: ServiceHost) =>
      ctx.params["id"] === undefined ? list(ctx, state, host) : get(ctx, state, host),

    async create(ctx: AnyContext, state: State, host: ServiceHost) {
      const given = { ...ctx.params, ...scope(ctx) };
      const doc = hooks.beforeCreate ? await hooks.beforeCreate(given, ctx, host) : given;
      return state.visible(await db(host)._create(context(ctx), doc));
    },

    async update(ctx: AnyContext, state: State, host: ServiceHost) {
      const { id, version, ...patch } = ctx.params as Doc & { id: string; version?: number };
      const current = await owned(ctx, state, id);
      const changes = hooks.beforeUpdate
        ? await hooks.beforeUpdate(patch, current, ctx, host)
        : patch;
      return state.visible(
        await db(host)._update(context(ctx), { ...changes, ...scope(ctx), id, version }),
      );
    },

    async remove(ctx: AnyContext, state: State, host: ServiceHost) {
      const { id, ids } = ctx.params as RemoveParams;
      if (id !== undefined) await owned(ctx, state, id);
      const mine = await ownedIds(ctx, state, id === undefined ? ids! : [id]);
      await hooks.beforeRemove?.(mine, ctx, host);
      const removed = await state.store.removeMany(mine);
      if (removed.length > 0)
        await db(host).entityChanged("removed", removed, context(ctx), removed);
      return { removed: removed.length, ids: removed };
    },
  };
}

import type { Context, Service, ServiceSchema } from "moleculer";
import DbService from "moleculer-db";
import { recordCacheOf } from "../lib/cache/record-cache.ts";
import type { NodeEnv } from "../lib/service.ts";
import { RecordStoreAdapter } from "../lib/store/moleculer-adapter.ts";
import { openRecords } from "../lib/store/open-records.ts";
import type { Collection } from "../lib/store/record-store.ts";
import { tellingChanges } from "../lib/store/telling-store.ts";

/** What the mixin adds to a Moleculer service. */
export type RecordService = Service & { adapter: RecordStoreAdapter };

/** moleculer-db's name for the event that entries of a service's records are no longer right. */
const cleanEvent = (service: string) => `cache.clean.${service}`;

/** Tells this node's cache and the other nodes that records changed. */
async function recordsChanged({ broker }: Service, service: string): Promise<void> {
  const shared = await recordCacheOf(broker)?.changed(service);
  // Before the change is answered: NATS delivers it before anything that the answer leads to.
  broker.broadcast(cleanEvent(service), { shared: shared === true });
}

/** What keeps the caches of all nodes right, whoever changes records of this node's store. */
function cacheEvents(service: string) {
  return {
    [cleanEvent(service)]: {
      handler(ctx: Context<{ shared?: boolean }>) {
        if (ctx.nodeID !== ctx.broker.nodeID)
          recordCacheOf(ctx.broker)?.heard(service, ctx.params?.shared === true);
      },
    },
  };
}

/**
 * moleculer-db's service mixin on a collection of the record store. Its own actions are left out, since contracts
 * declare ours; its `started` is replaced, since it would try again for ever and hide why a store cannot open.
 * @param cachedAs The service's name, where its records are cached.
 */
export function recordsMixin(
  { config }: NodeEnv,
  collection: Collection,
  cachedAs?: string,
): Partial<ServiceSchema> {
  const db = DbService as unknown as ServiceSchema;
  return {
    settings: { ...(db.settings as object), idField: "id" } as ServiceSchema["settings"],
    // The store tells of changes itself.
    methods: { ...(db.methods as object), clearCache: () => Promise.resolve() } as never,
    events: (cachedAs === undefined ? {} : cacheEvents(cachedAs)) as never,
    created(this: Service) {
      const adapter = new RecordStoreAdapter(async () => {
        const store = await openRecords(config, collection);
        if (cachedAs === undefined) return store;
        return tellingChanges(store, () => recordsChanged(this, cachedAs));
      });
      adapter.init(this.broker, this);
      (this as RecordService).adapter = adapter;
    },
    started(this: Service) {
      return (this as RecordService).adapter.connect();
    },
    stopped(this: Service) {
      return (this as RecordService).adapter.disconnect();
    },
  };
}

import type { Service, ServiceSchema } from "moleculer";
import DbService from "moleculer-db";
import type { NodeEnv } from "../lib/service.ts";
import { RecordStoreAdapter } from "../lib/store/moleculer-adapter.ts";
import { openRecords } from "../lib/store/open-records.ts";
import type { Collection } from "../lib/store/record-store.ts";

/** What the mixin adds to a Moleculer service. */
export type RecordService = Service & { adapter: RecordStoreAdapter };

/**
 * moleculer-db's service mixin on a collection of the record store. Its own actions are left out, since contracts
 * declare ours; its `started` is replaced, since it would try again for ever and hide why a store cannot open.
 */
export function recordsMixin({ config }: NodeEnv, collection: Collection): Partial<ServiceSchema> {
  const db = DbService as unknown as ServiceSchema;
  return {
    settings: { ...(db.settings as object), idField: "id" } as ServiceSchema["settings"],
    methods: db.methods,
    created(this: Service) {
      const adapter = new RecordStoreAdapter(() => openRecords(config, collection));
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

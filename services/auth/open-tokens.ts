import type { Config } from "../../lib/config.ts";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { acquireRedis } from "../../lib/redis.ts";
import { recordsFile } from "../../lib/store/open-records.ts";
import { RedisTokenStore } from "./redis-token-store.ts";
import { SqliteTokenStore } from "./sqlite-token-store.ts";
import type { TokenStore } from "./token-store.ts";

/** The login tokens where the configuration says that records live, with Redis in front where there is one. */
export async function openTokens(config: Config): Promise<TokenStore> {
  const durable = await openDurable(config);
  const redis = acquireRedis(config, "Each node looks login tokens up in the records.");
  return redis ? new RedisTokenStore(durable, redis) : durable;
}

async function openDurable(config: Config): Promise<TokenStore> {
  if (config.MONGO_URL === undefined) return SqliteTokenStore.open(recordsFile(config));
  // Only where it is needed: the library costs memory and time at the start.
  const { MongoTokenStore } = await import("./mongo-token-store.ts");
  const reporter = dependenciesOf(config).declare("mongodb", {
    degrades: "Nobody can sign in or out, and only the fixed tokens are known",
    essential: true,
  });
  return MongoTokenStore.open(config.MONGO_URL, reporter);
}

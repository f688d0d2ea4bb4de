import type { Config } from "../../lib/config.ts";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { recordsFile } from "../../lib/store/open-records.ts";
import { MongoTokenStore } from "./mongo-token-store.ts";
import { SqliteTokenStore } from "./sqlite-token-store.ts";
import type { TokenStore } from "./token-store.ts";

/** The login tokens where the configuration says that records live. */
export function openTokens(config: Config): Promise<TokenStore> {
  if (config.MONGO_URL === undefined) return SqliteTokenStore.open(recordsFile(config));
  const reporter = dependenciesOf(config).declare("mongodb", {
    degrades: "Nobody can sign in or out, and only the fixed tokens are known.",
    essential: true,
  });
  return MongoTokenStore.open(config.MONGO_URL, reporter);
}

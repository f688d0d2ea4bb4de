import { join } from "node:path";
import type { Config } from "../../lib/config.ts";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import type { JobStore } from "./job-store.ts";
import { SqliteJobStore } from "./sqlite-job-store.ts";

/** Where jobs are kept: MongoDB where an address is set, a file in DATA_DIR otherwise. */
export async function openJobStore(
  config: Pick<Config, "DATA_DIR"> & Partial<Pick<Config, "MONGO_URL">>,
): Promise<JobStore> {
  // The lock of the data directory keeps every other process out of the file.
  if (!config.MONGO_URL)
    return SqliteJobStore.open(join(config.DATA_DIR, "jobs.sqlite"), { exclusive: true });
  const reporter = dependenciesOf(config).declare("mongodb", {
    degrades: "Jobs are neither accepted nor placed; what runs goes on until its lease ends",
    essential: true,
  });
  // Only where it is needed: the library costs memory and start-up time.
  const { MongoJobStore } = await import("./mongo-job-store.ts");
  return MongoJobStore.open(config.MONGO_URL, reporter);
}

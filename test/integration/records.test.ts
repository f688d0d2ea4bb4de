import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SqliteRecordStore } from "../../lib/store/sqlite-record-store.ts";
import { recordStoreSuite } from "../support/record-store.suite.ts";

recordStoreSuite("SQLite", async () => {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-records-"));
  const path = join(dir, "records.sqlite");
  return {
    open: (collection) => SqliteRecordStore.open(collection, { path }),
    cleanUp: () => rm(dir, { recursive: true, force: true }),
  };
});

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { acquireMongo } from "../../lib/mongo/connection.ts";
import { MongoTokenStore } from "../../services/auth/mongo-token-store.ts";
import { SqliteTokenStore } from "../../services/auth/sqlite-token-store.ts";
import { serversForTests } from "../support/servers.ts";
import { tokenStoreSuite } from "../support/token-store.suite.ts";

const servers = await serversForTests("mongo");

tokenStoreSuite("SQLite", async () => {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-tokens-"));
  return {
    open: () => SqliteTokenStore.open(join(dir, "records.sqlite")),
    cleanUp: () => rm(dir, { recursive: true, force: true }),
  };
});

servers.describe("with a MongoDB server", () => {
  let places = 0;
  tokenStoreSuite("MongoDB", async () => {
    places += 1;
    const url = servers.mongoUrl(`tokens-${places}`);
    return {
      open: () => MongoTokenStore.open(url),
      async cleanUp() {
        const { connection, release } = await acquireMongo(url);
        await connection.dropDatabase();
        await release();
      },
    };
  });
});

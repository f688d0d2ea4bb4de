import { expect, test } from "@jest/globals";
import { acquireMongo } from "../../lib/mongo/connection.ts";
import { MongoRecordStore } from "../../lib/store/mongo-record-store.ts";
import { recordStoreSuite } from "../support/record-store.suite.ts";
import { serversForTests } from "../support/servers.ts";

const servers = await serversForTests("mongo");
let places = 0;

servers.describe("MongoDB", () => {
  recordStoreSuite("MongoDB", async () => {
    places += 1;
    const url = servers.mongoUrl(`records-${places}`);
    return {
      open: (collection) => MongoRecordStore.open(collection, { url }),
      async cleanUp() {
        const { connection, release } = await acquireMongo(url);
        await connection.dropDatabase();
        await release();
      },
    };
  });
  test("x", () => expect(1).toBe(1));
});

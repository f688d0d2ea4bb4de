import { MongoJobStore } from "../../services/scheduler/mongo-job-store.ts";
import { jobStoreSuite } from "../support/job-store.suite.ts";
import { serversForTests } from "../support/servers.ts";

const servers = await serversForTests("mongo");
let databases = 0;

servers.describe("job store in MongoDB", () => {
  jobStoreSuite(
    "MongoDB",
    async () => {
      databases += 1;
      const url = servers.mongoUrl(`jobs${databases}`);
      let store = await MongoJobStore.open(url);
      return {
        store,
        reopen: async () => {
          await store.close();
          store = await MongoJobStore.open(url);
          return store;
        },
        remove: () => store.close(),
      };
    },
    { durable: true, fencesInserts: false },
  );
});

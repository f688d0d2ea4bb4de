import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MemoryJobStore } from "../../services/scheduler/memory-job-store.ts";
import { SqliteJobStore } from "../../services/scheduler/sqlite-job-store.ts";
import { jobStoreSuite } from "../support/job-store.suite.ts";

jobStoreSuite(
  "memory",
  async () => {
    const store = new MemoryJobStore();
    return { store, reopen: async () => store, remove: () => store.close() };
  },
  { durable: true, fencesInserts: true },
);

jobStoreSuite(
  "memory that takes late insertions",
  async () => {
    const store = new MemoryJobStore({ fencesInserts: false });
    return { store, reopen: async () => store, remove: () => store.close() };
  },
  { durable: true, fencesInserts: false },
);

jobStoreSuite(
  "SQLite",
  async () => {
    const dir = await mkdtemp(join(tmpdir(), "reelmesh-jobs-"));
    const path = join(dir, "jobs.sqlite");
    let store = await SqliteJobStore.open(path);
    return {
      store,
      reopen: async () => {
        await store.close();
        store = await SqliteJobStore.open(path);
        return store;
      },
      remove: async () => {
        await store.close();
        await rm(dir, { recursive: true });
      },
    };
  },
  { durable: true, fencesInserts: true },
);

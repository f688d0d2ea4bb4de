import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { outputPrefix } from "../../lib/job-output-key.ts";
import { DiskStore } from "../../services/storage/disk-store.ts";
import { removeOutputs } from "../../services/storage/remove-outputs.ts";

let dir: string;
let store: DiskStore;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-outputs-"));
  store = await DiskStore.open(dir);
  await store.ensureBucket("b-1");
  for (const [jobId, attempt] of [
    ["a", 1],
    ["a", 2],
    ["a", 10],
    ["ab", 1],
  ] as const)
    for (const name of ["x.mp4", "y.png"])
      await store.put(
        { bucket: "b-1", key: outputPrefix({ jobId, attempt }) + name, contentType: "text/plain" },
        (async function* () {
          yield "content";
        })(),
      );
});
afterEach(async () => {
  await store.close?.();
  await rm(dir, { recursive: true, force: true });
});

const keys = async () => {
  const page = await store.list({ bucket: "b-1", prefix: "", delimiter: "", limit: 100 });
  return page.objects.map(({ key }) => key.replace(/\/[xy]\..*/, ""));
};

test("the winner, later attempts and other jobs keep what they have", async () => {
  expect(await removeOutputs(store, "b-1", { jobId: "a", upTo: 2, keep: 2 })).toBe(2);
  expect([...new Set(await keys())]).toEqual(["jobs/a/10", "jobs/a/2", "jobs/ab/1"]);
});

test("without a winner nothing up to the last attempt stays; repeating it is harmless", async () => {
  expect(await removeOutputs(store, "b-1", { jobId: "a", upTo: 10 })).toBe(6);
  expect(await removeOutputs(store, "b-1", { jobId: "a", upTo: 10 })).toBe(0);
  expect([...new Set(await keys())]).toEqual(["jobs/ab/1"]);
});

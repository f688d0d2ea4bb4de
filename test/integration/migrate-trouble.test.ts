import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { openRecords } from "../../lib/store/open-records.ts";
import { defineCollection, type StoredRecord } from "../../lib/store/record-store.ts";
import { agentApp } from "../../services/agent/app.contract.ts";
import { logLinesMax } from "../../services/scheduler/config.ts";
import type { Job } from "../../services/scheduler/job.types.ts";
import { MongoJobStore } from "../../services/scheduler/mongo-job-store.ts";
import { SqliteJobStore } from "../../services/scheduler/sqlite-job-store.ts";
import { DiskStore } from "../../services/storage/disk-store.ts";
import { type Command, runScript } from "../support/command.ts";
import { type CuttableLine, cuttableLine } from "../support/cuttable-line.ts";
import { pendingJob } from "../support/job-store.suite.ts";
import { serversForTests } from "../support/servers.ts";

const servers = await serversForTests("mongo", "s3");
const apps = agentApp.collection;

let dir: string;
let url: string;
let databases = 0;
let running: Command[] = [];
let ways: CuttableLine[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-migrate-"));
  databases += 1;
  url = servers.mongoUrl(`trouble${databases}`);
});
afterEach(async () => {
  for (const { child, ended } of running) {
    child.kill("SIGKILL");
    await ended;
  }
  for (const way of ways) await way.cut();
  running = [];
  ways = [];
  await rm(dir, { recursive: true, force: true });
});

const s3 = () => ({
  S3_ENDPOINT: servers.s3.endpoint,
  OSS_ACCESSKEY_ID: servers.s3.accessKeyId,
  OSS_ACCESSKEY_SECRET: servers.s3.secretAccessKey,
  OSS_REGION: servers.s3.region,
});
const noServer = { S3_ENDPOINT: "", OSS_ACCESSKEY_ID: "", OSS_ACCESSKEY_SECRET: "" };
const begin = (args: string[], env: Record<string, string> = noServer) => {
  const command = runScript("migrate", { args, env: { MONGO_URL: url, ...env } });
  running.push(command);
  return command;
};
async function migrate(args: string[], env?: Record<string, string>) {
  const command = begin(["--from", dir, ...args], env);
  const code = await command.ended;
  return { code, text: command.text() };
}
const dataOnly = (...args: string[]) => migrate(["--skip-objects", ...args]);

async function restoreApps(place: Parameters<typeof openRecords>[0], records: StoredRecord[]) {
  const store = await openRecords(place, apps);
  await store.restore(records);
  await store.close();
}
const app = (id: string, name: string): StoredRecord => ({
  id,
  version: 3,
  createdAt: 1_000,
  updatedAt: 2_000,
  name,
});
async function appsIn(place: Parameters<typeof openRecords>[0]) {
  const store = await openRecords(place, apps);
  try {
    return (await store.list({ sort: "id", limit: 100 })).rows;
  } finally {
    await store.close();
  }
}

servers.describe("a move that cannot begin", () => {
  test.each([
    ["no source", [], /--from: missing/],
    ["no installation there", ["--from", tmpdir()], /is no installation's directory/],
    ["an option that is none", ["--form", "x"], /--form/],
  ])("with %s says so in one sentence", async (_, args, said) => {
    const command = begin(args);
    expect([await command.ended, command.text()]).toEqual([1, expect.stringMatching(said)]);
    expect(command.text().trim().split("\n")).toHaveLength(1);
  });

  test("without an S3 server names what to set, and goes on where objects are left behind on purpose", async () => {
    await restoreApps({ DATA_DIR: dir }, [app("a", "one")]);
    const refused = await migrate([]);
    expect([refused.code, refused.text]).toEqual([
      1,
      expect.stringMatching(/S3_ENDPOINT: missing.*--skip-objects/),
    ]);
    expect(await dataOnly()).toEqual({ code: 0, text: expect.stringContaining("left behind") });
  });

  test("what no service declares is named, and left behind only on purpose", async () => {
    await restoreApps({ DATA_DIR: dir }, [app("a", "one")]);
    const posters = await openRecords({ DATA_DIR: dir }, defineCollection({ name: "poster" }));
    await posters.insert({ title: "x" });
    await posters.close();
    await writeFile(join(dir, "plans.sqlite"), "");
    const refused = await dataOnly();
    expect([refused.code, refused.text]).toEqual([
      1,
      expect.stringContaining("poster, plans.sqlite"),
    ]);
    const partly = await dataOnly("--ignore", "poster");
    expect([partly.code, partly.text]).toEqual([1, expect.not.stringContaining("poster")]);
    const moved = await dataOnly("--ignore", "poster", "--ignore", "plans.sqlite");
    expect(moved).toEqual({ code: 0, text: expect.stringContaining("Everything is equal.") });
  });

  test("a file that is no database, or of a newer version, is one sentence", async () => {
    await writeFile(join(dir, "records.sqlite"), "not a database, however long it may be");
    const refused = await dataOnly();
    expect([refused.code, refused.text]).toEqual([
      1,
      expect.stringMatching(/^migrate: --from: .* cannot be opened: .*\n$/),
    ]);
    await rm(join(dir, "records.sqlite"));
    await restoreApps({ DATA_DIR: dir }, [app("a", "one")]);
    const newer = defineCollection({
      name: apps.name,
      schemaVersion: 2,
      migrations: { 2: (d) => d },
    });
    await (await openRecords({ DATA_DIR: dir, MONGO_URL: url }, newer)).close();
    const old = await dataOnly();
    expect([old.code, old.text]).toEqual([1, expect.stringMatching(/--to: .*schema version 2/)]);
  });

  test("a directory on its way to another database is refused until its progress is removed", async () => {
    await restoreApps({ DATA_DIR: dir }, [app("a", "one")]);
    expect((await dataOnly()).code).toBe(0);
    const other = servers.mongoUrl("elsewhere");
    const refused = await dataOnly("--to", other);
    expect([refused.code, refused.text]).toEqual([
      1,
      expect.stringContaining("belongs to a move to"),
    ]);
    await writeFile(join(dir, "migration.json"), "half a fi");
    const broken = await dataOnly("--to", other);
    expect([broken.code, broken.text]).toEqual([1, expect.stringContaining("Remove it")]);
    await rm(join(dir, "migration.json"));
    expect((await dataOnly("--to", other)).code).toBe(0);
  });
});

servers.describe("a target that is not empty", () => {
  test("records of the same id stay and are named; --replace puts the source's there", async () => {
    await restoreApps({ DATA_DIR: dir }, [app("a", "ours"), app("b", "same"), app("c", "new")]);
    const place = { DATA_DIR: dir, MONGO_URL: url };
    await restoreApps(place, [app("a", "theirs"), app("b", "same"), app("z", "only there")]);
    const kept = await dataOnly();
    expect([kept.code, kept.text]).toEqual([
      1,
      expect.stringContaining("agent_app a is another one in the target: name"),
    ]);
    expect(kept.text).toMatch(/^agent_app +3 +3 +1 +NO/m);
    expect((await appsIn(place)).map(({ name }) => name)).toEqual([
      "theirs",
      "same",
      "new",
      "only there",
    ]);
    const replaced = await dataOnly("--replace");
    expect([replaced.code, replaced.text]).toEqual([
      0,
      expect.stringMatching(/^agent_app +3 +3 +1 +yes/m),
    ]);
    expect(await appsIn(place)).toEqual([
      app("a", "ours"),
      app("b", "same"),
      app("c", "new"),
      app("z", "only there"),
    ]);
  });

  test("jobs come after those that are there, with log numbers, callbacks and leases; a taken key is named", async () => {
    const source = await SqliteJobStore.open(join(dir, "jobs.sqlite"));
    const add = async (job: Job, more: object = {}) => {
      expect(await source.change({ next: job, term: 1, expectedVersion: 0, ...more })).toEqual({
        stored: true,
      });
    };
    const line = (n: number) => ({ at: n, attempt: 1, level: "info" as const, text: `${n}` });
    const entry = { id: "o1", jobId: "ended", action: "agent.run.settle", params: { $a: 1 } };
    const { spec, history } = pendingJob("running");
    const runs: Job = {
      ...{ spec, history: { ...history, attempt: 4, version: 9 }, state: "running", node: "n" },
      ...{ boot: "b", leaseUntil: 5, attemptAt: 4, accepted: true },
    };
    await add(runs);
    const end = pendingJob("ended", { payload: { text: "长".repeat(5_000) } });
    await add(
      {
        spec: end.spec,
        history: { ...end.history, version: 5 },
        state: "cancelled",
        endedAt: 7,
        reason: "",
      },
      { outbox: [entry] },
    );
    await add(pendingJob("keyed", { idempotencyKey: "taken" }));
    await add(pendingJob("last"));
    const written = Array.from({ length: logLinesMax + 5 }, (_, n) => line(n));
    await source.appendLog("last", written);
    const log = (await source.readLog("last", { limit: 10_000 })).lines;
    expect([log.length, log[0]!.seq]).toEqual([logLinesMax, 6]);
    await source.setQueuePaused("held", true);
    await source.close();

    let target = await MongoJobStore.open(url);
    const taken = (await target.takeOver({ term: 0, holder: "", beat: 0 }, "earlier"))!;
    for (const job of [
      pendingJob("theirs"),
      pendingJob("theirs-keyed", { idempotencyKey: "taken" }),
    ])
      await target.change({ next: job, term: taken.term, expectedVersion: 0 });
    await target.resign(taken.term);
    await target.close();

    const moved = await dataOnly();
    expect([moved.code, moved.text]).toEqual([
      1,
      expect.stringContaining("job keyed is kept out by job theirs-keyed"),
    ]);
    expect(moved.text).toMatch(/^jobs +4 +3 +2 +NO/m);
    target = await MongoJobStore.open(url);
    try {
      const { jobs } = await target.list({ limit: 10 });
      expect(jobs.map((job) => job.spec.id)).toEqual([
        "last",
        "ended",
        "running",
        "theirs-keyed",
        "theirs",
      ]);
      expect(jobs[2]).toEqual(runs);
      expect(await target.outboxPending(10)).toEqual([entry]);
      expect((await target.readLog("last", { limit: 10_000 })).lines).toEqual(log);
      expect((await target.readLog("last", { after: log.at(-1)!.seq, limit: 10 })).lines).toEqual(
        [],
      );
      expect(await target.counts()).toMatchObject({
        default: { pending: 3, running: 1, cancelled: 1 },
      });
      expect(await target.pausedQueues()).toEqual(["held"]);
      expect((await target.leadership()).holder).toBe("");
      // Whoever leads next goes on from there: lines and places are numbered on.
      const next = (await target.takeOver(await target.leadership(), "next"))!;
      await target.appendLog("last", [line(1)]);
      await target.change({ next: pendingJob("newest"), term: next.term, expectedVersion: 0 });
      const after = await target.readLog("last", { after: log.at(-1)!.seq, limit: 10 });
      expect(after.lines.map(({ seq }) => seq)).toEqual([log.at(-1)!.seq + 1]);
      expect((await target.list({ limit: 1 })).jobs[0]!.spec.id).toBe("newest");
    } finally {
      await target.close();
    }
  });
});

servers.describe("a move that meets trouble", () => {
  test("a file that is not what was stored, or has gone, is named and keeps no other back", async () => {
    const bucket = `${servers.prefix}-trouble`;
    const store = await DiskStore.open(dir);
    for (const key of ["a.txt", "bad.txt", "gone.txt", "z.txt"])
      await store.put(
        { bucket, key, contentType: "text/plain" },
        Readable.from([`content of ${key}`]),
      );
    const files = await readdir(join(dir, "objects"), { recursive: true, withFileTypes: true });
    await store.close();
    const { DatabaseSync } = await import("node:sqlite");
    const index = new DatabaseSync(join(dir, "objects.sqlite"), { readOnly: true });
    const fileOf = (key: string) =>
      join(
        dir,
        "objects",
        index.prepare("SELECT file FROM objects WHERE key = ?").get(key)!["file"] as string,
      );
    const [bad, gone] = [fileOf("bad.txt"), fileOf("gone.txt")];
    index.close();
    expect(files.filter((file) => file.isFile())).toHaveLength(4);
    await writeFile(bad, "c0ntent of bad.txt");
    await rm(gone);
    const moved = await migrate([], s3());
    expect(moved.code).toBe(1);
    expect(moved.text).toMatch(new RegExp(`${bucket}/bad.txt: .*MD5`));
    expect(moved.text).toMatch(new RegExp(`${bucket}/gone.txt: .*ENOENT`));
    expect(moved.text).toMatch(/ +4 +2 +0 +\d+ +NO/);
    // Put right, the same command carries what is missing.
    await writeFile(bad, "content of bad.txt");
    await writeFile(gone, "content of gone.txt");
    expect((await migrate([], s3())).code).toBe(0);
  });

  test("an object that is another one in the target stays and is named, in every run", async () => {
    const bucket = `${servers.prefix}-taken`;
    const store = await DiskStore.open(dir);
    for (const key of ["a.txt", "b.txt"])
      await store.put({ bucket, key, contentType: "text/plain" }, Readable.from([`ours ${key}`]));
    await store.close();
    expect((await migrate([], s3())).code).toBe(0);
    const again = await DiskStore.open(dir);
    await again.put(
      { bucket, key: "b.txt", contentType: "text/plain" },
      Readable.from(["0urs b.txt"]),
    );
    await again.close();
    await rm(join(dir, "migration.json"));
    for (let times = 0; times < 2; times += 1) {
      const moved = await migrate([], s3());
      expect([moved.code, moved.text]).toEqual([
        1,
        expect.stringContaining(`${bucket}/b.txt is another one in the target: sha256`),
      ]);
    }
  });

  test("a database that goes away ends it in one sentence, and the same command goes on", async () => {
    const records = Array.from({ length: 3_000 }, (_, n) => app(`app-${n}`, `name ${n}`));
    for (let at = 0; at < records.length; at += 1_000)
      await restoreApps({ DATA_DIR: dir }, records.slice(at, at + 1_000));
    const way = await cuttableLine(new URL(url));
    ways.push(way);
    const env = { ...noServer, MONGO_URL: way.url };
    const first = begin(["--from", dir, "--skip-objects"], env);
    await first.until(/^agent_app: 100 of 3000/m);
    await way.cut();
    expect(await first.ended).toBe(1);
    expect(first.text()).toMatch(/migrate: .*The same command goes on where this one ended/);
    await way.mend();
    const second = await migrate(["--skip-objects"], env);
    expect([second.code, second.text]).toEqual([
      0,
      expect.stringMatching(/^agent_app +3000 +3000 +0 +yes/m),
    ]);
  });
});

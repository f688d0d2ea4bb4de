import { afterEach, expect, test } from "@jest/globals";
import mongoose from "mongoose";
import { asAppError } from "../../lib/errors.ts";
import { type MongoJobLimits, mongoJobLimits } from "../../services/scheduler/config.ts";
import type { Job, JobSpec, JobState } from "../../services/scheduler/job.types.ts";
import type { JobChange, JobLogLine, JobStore } from "../../services/scheduler/job-store.ts";
import { openJobModels } from "../../services/scheduler/mongo-job-models.ts";
import { MongoJobStore } from "../../services/scheduler/mongo-job-store.ts";
import { cuttableLine } from "../support/cuttable-line.ts";
import { jobStoreSuite, type OpenedStore, pendingJob } from "../support/job-store.suite.ts";
import { serversForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const servers = await serversForTests("mongo");
let databases = 0;
const newUrl = () => {
  databases += 1;
  return servers.mongoUrl(`jobs${databases}`);
};

async function openStore(limits: MongoJobLimits): Promise<OpenedStore> {
  const url = newUrl();
  let store = await MongoJobStore.open(url, undefined, limits);
  return {
    store,
    reopen: async () => {
      await store.close();
      store = await MongoJobStore.open(url, undefined, limits);
      return store;
    },
    remove: () => store.close(),
  };
}

/** Every group, range and list has to be continued; every specification is kept apart. */
const small: MongoJobLimits = {
  ...mongoJobLimits,
  groupMax: 2,
  specGroupMax: 1,
  specInlineChars: 0,
  linesInJobMax: 2,
  trimEachLines: 1,
  rangeMin: 1,
  readMax: 2,
  tallyEach: 1,
};

servers.describe("the store's suite", () => {
  const traits = { durable: true, fencesInserts: false };
  jobStoreSuite("MongoDB", () => openStore(mongoJobLimits), traits);
  jobStoreSuite("MongoDB in small pieces", () => openStore(small), traits);
});

const nobody = { term: 0, holder: "", beat: 0 };
const T0 = 1_700_000_000_000;
const times = <T>(n: number, make: (index: number) => T) =>
  Array.from({ length: n }, (_, i) => make(i));

const next = ({ spec, history }: Job, more: Partial<Job["history"]> = {}) => ({
  spec,
  history: { ...history, ...more, version: history.version + 1 },
});
const claimed = (job: Job): Job => ({
  ...next(job, { attempt: job.history.attempt + 1 }),
  state: "running",
  node: "n",
  boot: "b",
  leaseUntil: T0,
  attemptAt: T0,
  accepted: false,
});
const waiting = (job: Job): Job => ({ ...next(job), state: "pending", readyAt: T0 });
const ended = (job: Job, state: "success" | "cancelled" = "success"): Job =>
  state === "cancelled"
    ? { ...next(job), state, endedAt: T0, reason: "" }
    : { ...next(job), state, endedAt: T0, result: { hash: "h", outputs: [], info: {} } };

const insert = (job: Job, term = 1): JobChange => ({ next: job, term, expectedVersion: 0 });
const update = (job: Job, term = 1): JobChange => ({
  next: job,
  term,
  expectedVersion: job.history.version - 1,
});
const line = (text: string): JobLogLine => ({ at: T0, attempt: 1, level: "info", text });

/** The database under a store. */
async function withDatabase<T>(
  url: string,
  run: (db: mongoose.mongo.Db) => Promise<T>,
): Promise<T> {
  const client = await mongoose.mongo.MongoClient.connect(url);
  return run(client.db()).finally(() => client.close());
}

servers.describe("job store in MongoDB", () => {
  const opened: { close(): Promise<void> }[] = [];
  const open = async (url: string, limits: Partial<MongoJobLimits> = {}) => {
    const store = await MongoJobStore.open(url, undefined, { ...mongoJobLimits, ...limits });
    opened.push(store);
    return store;
  };
  const lead = async (url: string, limits: Partial<MongoJobLimits> = {}, ...jobs: Job[]) => {
    const store = await open(url, limits);
    await store.takeOver(nobody, "first");
    for (const job of jobs) await store.change(insert(job));
    return store;
  };
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.close();
  });

  test("names and texts that mean something to the database come back as they were given", async () => {
    const payload = { "a.b": 1, $set: { "$x.y": null }, "": [{ "": "" }], text: "\0 $lines 😀" };
    const spec: Partial<JobSpec> = {
      payload,
      queue: "$queue",
      kind: "$$ROOT",
      idempotencyKey: "$lines",
    };
    const job = pendingJob("$id", spec);
    const store = await lead(newUrl(), {}, job);
    expect(await store.get("$id")).toEqual(job);
    expect(await store.findByIdempotencyKey("member:1", "$lines")).toEqual(job);
    const outbox = [{ id: "$outbox", jobId: "$id", action: "$action", params: { "$a.b": "$c" } }];
    const texts = ["$lines", "$$NOW", "{$literal: 1}"];
    await store.change({ ...update(ended(job)), log: texts.map(line), outbox });
    expect((await store.readLog("$id", { limit: 9 })).lines.map(({ text }) => text)).toEqual(texts);
    expect(await store.outboxPending(9)).toEqual(outbox);
    expect(await store.counts()).toMatchObject({ $queue: { success: 1 } });
  });

  test("a long specification is kept apart, and not kept for a job that was refused", async () => {
    const url = newUrl();
    const long = { payload: { text: "x".repeat(10_000) }, idempotencyKey: "k" };
    const store = await lead(url, {}, pendingJob("j1", long));
    const again = await store.change(insert(pendingJob("j2", long)));
    expect(again).toEqual({ stored: false, current: pendingJob("j1", long) });
    await store.change(update(claimed(pendingJob("j1", long))));
    expect(await store.get("j1")).toEqual(claimed(pendingJob("j1", long)));
    expect((await store.list({ limit: 5 })).jobs).toEqual([claimed(pendingJob("j1", long))]);
    const [specs, size] = await withDatabase(url, async (db) => [
      await db.collection("job_specs").countDocuments(),
      JSON.stringify(await db.collection("jobs").findOne()).length,
    ]);
    expect(specs).toBe(1);
    expect(size).toBeLessThan(1_000);
  });

  test("of many changes that go together each gets the answer of its own", async () => {
    const jobs = times(60, (n) => pendingJob(`j${n}`));
    const store = await lead(newUrl());
    const inserts = await Promise.all([...jobs, ...jobs].map((job) => store.change(insert(job))));
    expect(inserts.filter(({ stored }) => stored)).toHaveLength(60);
    const even = jobs.filter((_, n) => n % 2 === 0);
    await Promise.all(even.map((job) => store.change(update(claimed(job)))));
    // The odd ones are claimed; for the even ones it is too late.
    const claims = await Promise.all(jobs.map((job) => store.change(update(claimed(job)))));
    expect(claims.map(({ stored }) => stored)).toEqual(jobs.map((_, n) => n % 2 === 1));
    const missing = await Promise.all(
      jobs.map((job, n) =>
        store.change(update(n % 3 ? ended(claimed(job)) : claimed(pendingJob(`no${n}`)))),
      ),
    );
    expect(missing.map(({ stored }) => stored)).toEqual(jobs.map((_, n) => n % 3 !== 0));
  });

  test("a change whose answer is lost is refused in bounded time and found when it is read again", async () => {
    const job = pendingJob("j1");
    const direct = new URL(newUrl());
    const cutLine = await cuttableLine(direct);
    const store = await lead(`${cutLine.url}?directConnection=true`, {}, job);
    opened.push({ close: () => cutLine.cut() });
    cutLine.fate = () => "deaf";
    const failure = await store.change(update(claimed(job))).catch((error: unknown) => error);
    expect(asAppError(failure)?.type).toBe("UNAVAILABLE");
    await cutLine.mend();
    expect(await store.get("j1")).toEqual(claimed(job));
    expect(await store.change(update(ended(claimed(job))))).toEqual({ stored: true });
    await cutLine.cut();
    const away = await store.get("j1").catch((error: unknown) => error);
    expect(asAppError(away)?.type).toBe("UNAVAILABLE");
    await cutLine.mend();
    expect(await store.get("j1")).toEqual(ended(claimed(job)));
  });

  test("a take-over that broke off half way promises nothing; the next one fences the earlier leader off", async () => {
    const url = newUrl();
    const job = pendingJob("j1");
    const store = await lead(url, {}, job);
    await withDatabase(url, (db) =>
      db
        .collection("job_leadership")
        .updateOne({}, { $set: { term: 2, holder: "crashed", beat: 0 } }),
    );
    expect(await store.renew(1)).toBe(false);
    expect(await store.change(update(claimed(job), 1))).toEqual({ stored: true });
    const other = await open(url);
    const seen = await other.leadership();
    expect(await other.takeOver(seen, "third")).toMatchObject({ term: 3, holder: "third" });
    expect(await store.change(update(ended(claimed(job)), 1))).toEqual({
      stored: false,
      deposed: true,
    });
    expect(await other.change(update(ended(claimed(job)), 3))).toEqual({ stored: true });
  });

  test("of nodes that open an empty database at once each gets its store", async () => {
    const url = newUrl();
    // Each has a connection of its own, as in a process of its own.
    const stores = await Promise.all(times(5, (n) => open(`${url}?appName=node${n}`)));
    const taken = await Promise.all(stores.map((store, n) => store.takeOver(nobody, `node${n}`)));
    expect(taken.filter(Boolean)).toHaveLength(1);
  });

  test("what is written is what the models declare; a question about a field that they lack is refused", async () => {
    const url = newUrl();
    const store = await lead(url, { specInlineChars: 0, tallyEach: 1 });
    const job = pendingJob("j1", { idempotencyKey: "k" });
    const outbox = [{ id: "o", jobId: "j1", action: "a.b", params: {} }];
    await store.change({ ...insert(job), log: [line("new")] });
    await store.change({ ...update(claimed(job)), log: [line("claim")] });
    await store.change({ ...update(ended(claimed(job))), outbox });
    await store.change(update(waiting(ended(claimed(job)))));
    await store.appendLog("j1", [line("node")]);
    await store.setQueuePaused("q", true);
    const connection = await mongoose.createConnection(url).asPromise();
    opened.push(connection);
    for (const model of Object.values(
      await openJobModels(connection),
    ) as mongoose.Model<object>[]) {
      const documents = await model.collection.find().toArray();
      expect([model.modelName, documents.length]).toEqual([model.modelName, 1]);
      // Throws on a field that is not declared.
      for (const document of documents) await new model(document).validate();
      await expect(model.find({ nonsense: 1 } as never)).rejects.toThrow(/nonsense/);
    }
  });

  test("two writers of one place are listed once each, page by page", async () => {
    const url = newUrl();
    const stores = [await lead(url), await open(url)] as const;
    const ids = times(14, (n) => `j${n}`);
    // Both number their jobs from the same place on.
    await Promise.all(ids.map((id, n) => stores[n % 2 ? 1 : 0].change(insert(pendingJob(id)))));
    const places = await withDatabase(url, (db) => db.collection("jobs").distinct("place"));
    expect(places).toHaveLength(7);
    for (const limit of [1, 2, 3, 5]) {
      const listed: string[] = [];
      let after: string | undefined;
      do {
        const page = await stores[0].list({ limit, after });
        listed.push(...page.jobs.map(({ spec }) => spec.id));
        after = page.next;
      } while (after !== undefined);
      expect(listed.sort()).toEqual([...ids].sort());
    }
  });

  test("a rare state is found however far back, and a mark that nobody gave finds nothing", async () => {
    const store = await lead(newUrl(), { rangeMin: 4 });
    const rare = new Set(["j3", "j150", "j151"]);
    const jobs = times(300, (n) => pendingJob(`j${n}`));
    for (const job of jobs) void store.change(insert(rare.has(job.spec.id) ? ended(job) : job));
    await store.change(insert(pendingJob("last")));
    const first = await store.list({ state: "success", limit: 2 });
    const second = await store.list({ state: "success", limit: 2, after: first.next });
    const found = [first, second].map(({ jobs: page }) => page.map(({ spec }) => spec.id));
    expect(found).toEqual([["j151", "j150"], ["j3"]]);
    for (const after of ["", "zz", ".j1", "$.x", "1.\0"])
      expect((await store.list({ limit: 5, after })).jobs).toEqual([]);
  });

  test("counts stay right while jobs end, are retried and end again, and the sums move on", async () => {
    const url = newUrl();
    const store = await lead(url, { tallyEach: 1 });
    let random = 42;
    const pick = (below: number) => {
      random = (random * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((random / 2 ** 31) * below);
    };
    const jobs = new Map<string, Job>();
    const expected = () => {
      const counts: Record<string, Partial<Record<JobState, number>>> = {};
      for (const { spec, state } of jobs.values()) {
        counts[spec.queue] ??= { pending: 0, running: 0, success: 0, failed: 0, cancelled: 0 };
        counts[spec.queue]![state] = (counts[spec.queue]![state] ?? 0) + 1;
      }
      return counts;
    };
    const step = async (n: number) => {
      const [, job] = [...jobs][pick(20)] ?? [];
      if (!job) {
        const fresh = pendingJob(`j${n}`, { queue: `q${pick(2)}` });
        jobs.set(fresh.spec.id, fresh);
        return store.change(insert(fresh));
      }
      const moved =
        job.state === "pending"
          ? pick(3)
            ? claimed(job)
            : ended(job, "cancelled")
          : job.state === "running"
            ? ended(job)
            : pick(4)
              ? waiting(job)
              : ended(job, pick(2) ? "success" : "cancelled");
      jobs.set(job.spec.id, moved);
      return store.change(update(moved));
    };
    for (let n = 0; n < 150; n++) {
      expect(await step(n)).toEqual({ stored: true });
      if (n % 15 === 0) expect(await store.counts()).toEqual(expected());
    }
    expect(await store.counts()).toEqual(expected());
    const other = await open(url);
    expect(await other.counts()).toEqual(expected());
    const upTo = await withDatabase(
      url,
      async (db) => (await db.collection("job_tally").findOne())?.["upTo"],
    );
    expect(upTo).toBeGreaterThan(50);
  });

  test("after a take-over the sums are counted anew, whatever they were", async () => {
    const url = newUrl();
    const store = await lead(url, { tallyEach: 1 }, pendingJob("j1"), pendingJob("j2"));
    await store.change(update(ended(pendingJob("j1"))));
    await store.close();
    await withDatabase(url, (db) =>
      db
        .collection<{ _id: string }>("job_tally")
        .updateOne(
          { _id: "tally" },
          { $set: { upTo: 3, counts: [{ queue: "default", state: "success", n: 77 }] } },
        ),
    );
    const next = await open(url, { tallyEach: 1, tallyRecountMs: 0 });
    expect((await next.counts())["default"]?.success).toBe(77);
    const { term } = (await next.takeOver(await next.leadership(), "second"))!;
    await next.change(update(ended(pendingJob("j2"), "cancelled"), term));
    await until(async () => (await next.counts())["default"]?.success === 1, {
      what: "the recount",
    });
    expect(await next.counts()).toMatchObject({
      default: { success: 1, cancelled: 1, pending: 0 },
    });
  });

  test("a job that no document can hold is refused, and holds up nobody", async () => {
    const store = await lead(newUrl(), { jobCharsMax: 5_000 });
    const large = pendingJob("large", { payload: { text: "x".repeat(5_000) } });
    const results = await Promise.allSettled(
      [large, pendingJob("small")].map((job) => store.change(insert(job))),
    );
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect(asAppError((results[0] as PromiseRejectedResult).reason)?.type).toBe(
      "PAYLOAD_TOO_LARGE",
    );
  });

  test("lines of many attempts are moved to the log in order, between lines of the node", async () => {
    const store = await lead(newUrl(), { linesInJobMax: 4 });
    let job = pendingJob("j1");
    await store.change(insert(job));
    for (let n = 0; n < 20; n++) {
      job = claimed(job);
      await store.change({ ...update(job), log: [line(`claim ${n}`)] });
      await store.appendLog("j1", [line(`node ${n}`)]);
      job = waiting(job);
      await store.change({ ...update(job), log: [line(`back ${n}`)] });
    }
    const { lines } = await store.readLog("j1", { limit: 100 });
    expect(lines.map(({ text }) => text)).toEqual(
      times(20, (n) => [`claim ${n}`, `node ${n}`, `back ${n}`]).flat(),
    );
    expect(lines.map(({ seq }) => seq)).toEqual(times(60, (n) => n + 1));
  });

  test("callbacks of several jobs and of one job's several ends wait in order, each until it is done", async () => {
    const store: JobStore = await lead(newUrl());
    const entry = (id: string, jobId: string) => ({ id, jobId, action: "a.b", params: {} });
    for (const id of ["j1", "j2"]) {
      const job = pendingJob(id);
      await store.change(insert(job));
      await store.change({ ...update(ended(job)), outbox: [entry(`${id}:2`, id)] });
      await store.change(update(waiting(ended(job))));
      await store.change({
        ...update(ended(waiting(ended(job)))),
        log: [line("again")],
        outbox: [entry(`${id}:4`, id)],
      });
    }
    const pending = async () => (await store.outboxPending(9)).map(({ id }) => id);
    expect(await pending()).toEqual(["j1:2", "j1:4", "j2:2", "j2:4"]);
    await store.outboxDone(["j1:4", "j2:2", "unknown"]);
    expect(await pending()).toEqual(["j1:2", "j2:4"]);
    await Promise.all([store.outboxDone(["j1:2"]), store.outboxDone(["j2:4"])]);
    expect(await pending()).toEqual([]);
  });
});

import { afterEach, describe, expect, test } from "@jest/globals";
import { logLinesMax } from "../../services/scheduler/config.ts";
import type { Job, JobSpec } from "../../services/scheduler/job.types.ts";
import type { JobChange, JobStore } from "../../services/scheduler/job-store.ts";

/** What a store promises; a case that needs a trait is left out where it is absent. */
export interface JobStoreTraits {
  /** Another opening of the same place finds what was stored. */
  durable: boolean;
  /** A new or retried job of an earlier term is refused at once; otherwise it may be taken and is listed as a stray. */
  fencesInserts: boolean;
}

/** A store, and how to open the same place again after it was closed. */
export interface OpenedStore {
  store: JobStore;
  reopen(): Promise<JobStore>;
  remove(): Promise<void>;
}

/** What a store answers that nobody has led yet. */
const nobody = { term: 0, holder: "", beat: 0 };
const T0 = 1_700_000_000_000;
const times = <T>(n: number, make: (index: number) => T) =>
  Array.from({ length: n }, (_, i) => make(i));

/** A pending job as it is first stored. */
export function pendingJob(id: string, spec: Partial<JobSpec> = {}): Job {
  return {
    spec: {
      id,
      kind: "noop",
      queue: "default",
      owner: "member:1",
      payload: { text: "你好" },
      priority: 50,
      createdAt: T0,
      dueAt: T0,
      attemptsMax: 3,
      backoffMs: 2_000,
      backoffMsMax: 60_000,
      timeoutMs: 60_000,
      stallMs: 60_000,
      requires: {},
      ...spec,
    },
    history: { attempt: 0, errors: 0, nodesLost: 0, progress: 0, version: 1 },
    state: "pending",
    readyAt: T0,
  };
}

/** The same job, claimed by a node. */
function claimed(job: Job, node: string): Job {
  const { spec, history } = job;
  return {
    spec,
    history: { ...history, attempt: history.attempt + 1, version: history.version + 1 },
    state: "running",
    node,
    boot: "b1",
    leaseUntil: T0 + 20_000,
    attemptAt: T0,
    accepted: false,
  };
}
const ended = ({ spec, history }: Job): Job => ({
  spec,
  history: { ...history, version: history.version + 1 },
  state: "cancelled",
  endedAt: T0 + 1,
  reason: "",
});
const insert = (next: Job, term = 1): JobChange => ({ next, term, expectedVersion: 0 });
const update = (from: Job, next: Job, term = 1): JobChange => ({
  next,
  term,
  expectedVersion: from.history.version,
});
const line = (text: string, level: "info" | "warn" = "info") => ({
  at: T0,
  attempt: 1,
  level,
  text,
});

async function activeIds(store: JobStore): Promise<string[]> {
  const ids: string[] = [];
  for await (const job of store.active()) ids.push(job.spec.id);
  return ids.sort();
}

/** What every job store must do; each adapter's test file calls it. */
export function jobStoreSuite(
  name: string,
  open: () => Promise<OpenedStore>,
  traits: JobStoreTraits,
): void {
  let opened: OpenedStore | undefined;
  const start = async (...jobs: Job[]) => {
    opened = await open();
    await opened.store.takeOver(nobody, "first");
    for (const job of jobs) await opened.store.change(insert(job));
    return opened.store;
  };
  afterEach(async () => {
    await opened?.remove();
    opened = undefined;
  });

  describe(`${name}: compare-and-set`, () => {
    test("a stored job is read back as it was given", async () => {
      const job = pendingJob("j1", { idempotencyKey: "k" });
      const store = await start(job);
      expect(await store.get("j1")).toEqual(job);
      expect(await store.findByIdempotencyKey("member:1", "k")).toEqual(job);
      expect(await store.get("j2")).toBeUndefined();
    });

    test("of 50 concurrent claims exactly one wins, the others get what is stored", async () => {
      const job = pendingJob("j1");
      const store = await start(job);
      const results = await Promise.all(
        times(50, (n) => store.change(update(job, claimed(job, `node-${n}`)))),
      );
      const stored = await store.get("j1");
      expect(results.filter((result) => result.stored)).toHaveLength(1);
      for (const result of results)
        if (!result.stored) expect(result).toEqual({ stored: false, current: stored });
    });

    test("a second job with the same id is refused and answered with the first", async () => {
      const store = await start(pendingJob("j1"));
      const again = await store.change(insert(pendingJob("j1", { kind: "other" })));
      expect(again).toMatchObject({ stored: false, current: { spec: { kind: "noop" } } });
    });

    test("a change of a job that is not there stores nothing", async () => {
      const store = await start();
      const job = pendingJob("j1");
      expect(await store.change(update(job, claimed(job, "n")))).toEqual({
        stored: false,
        current: undefined,
      });
      expect(await store.get("j1")).toBeUndefined();
    });

    test("of 20 concurrent jobs with one idempotency key one is stored; another owner's key is its own", async () => {
      const store = await start();
      const results = await Promise.all(
        times(20, (n) => store.change(insert(pendingJob(`j${n}`, { idempotencyKey: "k" })))),
      );
      expect(results.filter((result) => result.stored)).toHaveLength(1);
      const winner = await store.findByIdempotencyKey("member:1", "k");
      for (const result of results)
        if (!result.stored) expect(result).toEqual({ stored: false, current: winner });
      const other = pendingJob("other", { idempotencyKey: "k", owner: "member:2" });
      expect(await store.change(insert(other))).toEqual({ stored: true });
      expect((await store.list({ limit: 50 })).jobs).toHaveLength(2);
    });

    test("log lines and outbox entries of a refused change are not written", async () => {
      const job = pendingJob("j1");
      const store = await start(job);
      const outbox = [{ id: "o1", jobId: "j1", action: "a.b", params: {} }];
      const stale = { ...update(claimed(job, "n"), claimed(job, "n")), log: [line("no")], outbox };
      expect(await store.change(stale)).toMatchObject({ stored: false });
      expect(await store.outboxPending(10)).toEqual([]);
      expect((await store.readLog("j1", { limit: 10 })).lines).toEqual([]);
    });
  });

  describe(`${name}: leadership`, () => {
    test("nobody leads at first; each take-over raises the term, each renewal the beat", async () => {
      opened = await open();
      const { store } = opened;
      expect(await store.leadership()).toEqual(nobody);
      expect(await store.takeOver(nobody, "a")).toEqual({ term: 1, holder: "a", beat: 0 });
      expect(await store.renew(1)).toBe(true);
      const seen = await store.leadership();
      expect(seen).toEqual({ term: 1, holder: "a", beat: 1 });
      expect(await store.takeOver(seen, "b")).toMatchObject({ term: 2, holder: "b" });
      expect(await store.leadership()).toMatchObject({ term: 2, holder: "b" });
    });

    test("of 20 concurrent take-overs exactly one wins", async () => {
      const store = await start();
      const seen = await store.leadership();
      const taken = await Promise.all(times(20, (n) => store.takeOver(seen, `node-${n}`)));
      const [winner, ...others] = taken.filter((leadership) => leadership !== undefined);
      expect(others).toEqual([]);
      expect(winner?.term).toBe(2);
      expect(await store.leadership()).toMatchObject({ term: 2, holder: winner?.holder });
    });

    test("a take-over by who has not seen the last renewal fails, and an earlier term cannot be renewed", async () => {
      const store = await start();
      const seen = await store.leadership();
      await store.renew(1);
      expect(await store.takeOver(seen, "b")).toBeUndefined();
      expect(await store.leadership()).toMatchObject({ term: 1, holder: "first" });
      await store.takeOver(await store.leadership(), "b");
      expect(await store.renew(1)).toBe(false);
      expect(await store.renew(2)).toBe(true);
      expect(await store.renew(3)).toBe(false);
    });

    test("resigning leaves nobody, also when repeated; an earlier leader cannot resign for a later one", async () => {
      const store = await start();
      for (let n = 0; n < 2; n++) await store.resign(1);
      const seen = await store.leadership();
      expect(seen).toMatchObject({ term: 1, holder: "" });
      await store.takeOver(seen, "b");
      await store.resign(1);
      expect(await store.leadership()).toMatchObject({ term: 2, holder: "b" });
    });

    test("after a take-over an earlier leader changes no active job and hears that it is deposed", async () => {
      const waiting = pendingJob("j1");
      const running = pendingJob("j2");
      const store = await start(waiting, running);
      await store.change(update(running, claimed(running, "n1")));
      await store.takeOver(await store.leadership(), "b");
      const outbox = [{ id: "o1", jobId: "j2", action: "a.b", params: {} }];
      const deposed = { stored: false, deposed: true };
      const end = { ...update(claimed(running, "n1"), ended(claimed(running, "n1"))), outbox };
      expect(await store.change({ ...end, log: [line("no")] })).toEqual(deposed);
      expect(await store.change(update(waiting, claimed(waiting, "n1")))).toEqual(deposed);
      expect(await store.get("j1")).toEqual(waiting);
      expect(await store.get("j2")).toEqual(claimed(running, "n1"));
      expect([
        await store.outboxPending(9),
        (await store.readLog("j2", { limit: 9 })).lines,
      ]).toEqual([[], []]);
      expect(await store.change(update(waiting, claimed(waiting, "n2"), 2))).toEqual({
        stored: true,
      });
    });

    test("of an earlier and a later leader's concurrent claims only the later one's are stored", async () => {
      const jobs = times(20, (n) => pendingJob(`j${n}`));
      const store = await start(...jobs);
      const seen = await store.leadership();
      const early = jobs.map((job) => store.change(update(job, claimed(job, "early"))));
      const taken = store.takeOver(seen, "b");
      const results = await Promise.all(early);
      expect(await taken).toMatchObject({ term: 2 });
      const late = await Promise.all(
        jobs.map((job) => store.change(update(job, claimed(job, "late"), 2))),
      );
      for (const [n, job] of jobs.entries()) {
        const node = results[n]?.stored ? "early" : "late";
        expect(late[n]?.stored).toBe(node === "late");
        expect(await store.get(job.spec.id)).toEqual(claimed(job, node));
      }
    });

    test("what an earlier leader adds late is refused, or adopted by the later one; then it is fenced", async () => {
      const done = pendingJob("done");
      const store = await start(done, pendingJob("kept"));
      await store.change(update(done, ended(done)));
      await store.takeOver(await store.leadership(), "b");
      const again: Job = {
        ...pendingJob("done"),
        history: { ...done.history, version: done.history.version + 2 },
      };
      const late = [insert(pendingJob("late")), update(ended(done), again)];
      const results = await Promise.all(late.map((change) => store.change(change)));
      if (traits.fencesInserts)
        expect(results).toEqual(late.map(() => ({ stored: false, deposed: true })));
      const taken = late.filter((_, n) => results[n]?.stored).map(({ next }) => next.spec.id);
      const strays = await store.strays(2);
      expect(strays.map(({ spec }) => spec.id).sort()).toEqual(taken.sort());
      expect(await store.strays(2)).toEqual([]);
      for (const stray of strays) {
        const claim = { ...claimed(stray, "n"), spec: stray.spec };
        expect(await store.change(update(stray, claim))).toEqual({ stored: false, deposed: true });
        expect(await store.change(update(stray, claim, 2))).toEqual({ stored: true });
      }
    });
  });

  describe(`${name}: reading`, () => {
    test("pages go newest first, without gaps or repeats while jobs are added", async () => {
      const store = await start(...times(7, (n) => pendingJob(`j${n}`)));
      const first = await store.list({ limit: 3 });
      await store.change(insert(pendingJob("late")));
      const second = await store.list({ limit: 3, after: first.next });
      const third = await store.list({ limit: 3, after: second.next });
      const ids = [first, second, third].flatMap(({ jobs }) => jobs.map(({ spec }) => spec.id));
      expect(ids).toEqual(["j6", "j5", "j4", "j3", "j2", "j1", "j0"]);
      expect(third.next).toBeUndefined();
    });

    test("filters combine and follow a job's state", async () => {
      const a = pendingJob("a", { queue: "q1" });
      const b = pendingJob("b", { queue: "q1", kind: "render" });
      const store = await start(a, b, pendingJob("c", { owner: "member:2" }));
      await store.change(update(a, claimed(a, "n1")));
      const ids = async (query: object) =>
        (await store.list({ limit: 10, ...query })).jobs.map(({ spec }) => spec.id);
      expect(await ids({ queue: "q1" })).toEqual(["b", "a"]);
      expect(await ids({ queue: "q1", state: "pending" })).toEqual(["b"]);
      expect(await ids({ state: "running" })).toEqual(["a"]);
      expect(await ids({ kind: "render", owner: "member:2" })).toEqual([]);
    });

    test("counts by queue and state follow each change, active jobs are those that have not ended", async () => {
      const a = pendingJob("a");
      const b = pendingJob("b", { queue: "q1" });
      const store = await start(a, b, pendingJob("c"));
      await store.change(update(a, claimed(a, "n1")));
      await store.change(update(b, ended(b)));
      const none = { pending: 0, running: 0, success: 0, failed: 0, cancelled: 0 };
      expect(await store.counts()).toEqual({
        default: { ...none, pending: 1, running: 1 },
        q1: { ...none, cancelled: 1 },
      });
      expect(await activeIds(store)).toEqual(["a", "c"]);
    });
  });

  describe(`${name}: log, outbox, queues`, () => {
    test("log lines are numbered in order, of a change and appended ones alike", async () => {
      const job = pendingJob("j1");
      const store = await start(job);
      await store.change({ ...update(job, claimed(job, "n")), log: [line("one"), line("two")] });
      await store.appendLog("j1", [line("three", "warn")]);
      const { lines } = await store.readLog("j1", { limit: 10 });
      expect(lines.map(({ seq, text }) => [seq, text])).toEqual([
        [1, "one"],
        [2, "two"],
        [3, "three"],
      ]);
      expect((await store.readLog("j1", { after: 1, limit: 1 })).lines).toEqual([lines[1]]);
    });

    test("an overlong log loses its oldest information lines and keeps older warnings", async () => {
      const store = await start(pendingJob("j1"));
      await store.appendLog("j1", [line("first"), line("careful", "warn")]);
      for (let n = 0; n < logLinesMax; n += 200)
        await store.appendLog(
          "j1",
          times(200, (i) => line(`line ${n + i}`)),
        );
      const { lines } = await store.readLog("j1", { limit: 2 * logLinesMax });
      expect(lines.slice(0, 2).map(({ text }) => text)).toEqual(["careful", "line 0"]);
      expect(lines).toHaveLength(logLinesMax + 1);
    });

    test("lines for a job that is not there are dropped", async () => {
      const store = await start();
      await store.appendLog("nobody", [line("x")]);
      expect((await store.readLog("nobody", { limit: 5 })).lines).toEqual([]);
    });

    test("outbox entries wait in order until they are done", async () => {
      const job = pendingJob("j1");
      const store = await start(job);
      const entry = (id: string) => ({ id, jobId: "j1", action: "run.settled", params: { n: id } });
      await store.change({ ...update(job, ended(job)), outbox: [entry("o1"), entry("o2")] });
      expect(await store.outboxPending(1)).toEqual([entry("o1")]);
      await store.outboxDone(["o1"]);
      expect(await store.outboxPending(10)).toEqual([entry("o2")]);
    });

    test("pausing and resuming a queue twice is the same as once", async () => {
      const store = await start();
      for (const queue of ["b", "a", "b"]) await store.setQueuePaused(queue, true);
      expect(await store.pausedQueues()).toEqual(["a", "b"]);
      for (let n = 0; n < 2; n++) await store.setQueuePaused("a", false);
      expect(await store.pausedQueues()).toEqual(["b"]);
    });
  });

  if (traits.durable)
    test(`${name}: a store that is opened again has everything that was answered`, async () => {
      const jobs = times(50, (n) => pendingJob(`j${n}`, { idempotencyKey: `k${n}` }));
      const store = await start();
      await Promise.all(jobs.map((job) => store.change(insert(job))));
      const [first] = jobs as [Job];
      const outbox = [{ id: "o", jobId: "j0", action: "a.b", params: {} }];
      await store.change({ ...update(first, ended(first)), log: [line("end")], outbox });
      await store.setQueuePaused("q", true);
      const again = await opened!.reopen();
      expect(await again.get("j0")).toEqual(ended(first));
      expect(await activeIds(again)).toHaveLength(49);
      expect((await again.counts())["default"]).toMatchObject({ pending: 49, cancelled: 1 });
      expect((await again.readLog("j0", { limit: 9 })).lines).toHaveLength(1);
      expect([await again.outboxPending(9), await again.pausedQueues()]).toEqual([outbox, ["q"]]);
      expect(await again.leadership()).toEqual({ term: 1, holder: "first", beat: 0 });
    });
}

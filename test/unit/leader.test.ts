import { describe, expect, test } from "@jest/globals";
import { SchedulerConfig } from "../../services/scheduler/config.ts";
import type { AttemptReport, NodeReport, StartOrder } from "../../services/scheduler/job.types.ts";
import type { JobChange, OutboxEntry } from "../../services/scheduler/job-store.ts";
import { Leader } from "../../services/scheduler/leader.ts";
import { MemoryJobStore } from "../../services/scheduler/memory-job-store.ts";
import { Submit } from "../../services/scheduler/scheduler.contract.ts";
import { pendingJob } from "../support/job-store.suite.ts";

const T0 = 1_700_000_000_000;
type Outcome = "accepted" | "refused" | "silent";

/** A store whose writes can fail, before or after they were carried out. */
class FlakyStore extends MemoryJobStore {
  exclusive = true;
  fault: "lost" | "full" | "answer-lost" | "late" | undefined;
  isUnreadable = false;
  readonly #late: JobChange[] = [];

  override async get(id: string) {
    if (this.isUnreadable) throw new Error("out of reach");
    return super.get(id);
  }

  /** What was given up as lost is carried out after all. */
  async comeThrough(): Promise<void> {
    for (const change of this.#late.splice(0)) await super.change(change);
  }

  override async change(change: JobChange) {
    const { fault } = this;
    this.fault = undefined;
    if (fault === "lost") throw new Error("it was not taken");
    if (fault === "late") {
      this.#late.push(change);
      throw new Error("no answer in time");
    }
    if (fault === "full")
      throw Object.assign(new Error("database or disk is full"), { errcode: 13 });
    const result = await super.change(change);
    if (fault === "answer-lost") throw new Error("no answer");
    return result;
  }
}

/** The leader's world under a clock that stands still until a test moves it. */
class World {
  now = T0;
  readonly store: FlakyStore;
  readonly orders: (StartOrder & { node: string })[] = [];
  readonly halts: { node: string; jobId: string; attempt: number; reason: string }[] = [];
  readonly delivered: OutboxEntry[] = [];
  outcome: Outcome = "accepted";
  refuseDeliveries = 0;
  probeBoot: string | undefined;
  term = 0;
  holdsLease = true;
  depositions = 0;
  leader!: Leader;
  #random = 0;

  constructor(store: FlakyStore) {
    this.store = store;
  }

  static async start(
    config: Partial<SchedulerConfig> = {},
    store = new FlakyStore(),
  ): Promise<World> {
    const world = new World(store);
    await world.restart(config);
    return world;
  }

  /** A crash of the scheduler and a new start on the same store. */
  async restart(config: Partial<SchedulerConfig> = {}): Promise<void> {
    this.leader?.close();
    this.leader = await Leader.open(
      {
        store: this.store,
        term: this.term,
        deposed: () => {
          this.depositions += 1;
        },
        holdsLease: () => this.holdsLease,
        now: () => this.now,
        random: () => (this.#random = (this.#random * 16_807 + 0.137) % 1),
        begin: async (node, order) => {
          this.orders.push({ node, ...order });
          if (this.outcome === "silent") throw new Error("no answer");
          return { outcome: this.outcome, reason: "busy" };
        },
        halt: async (node, ref) => {
          this.halts.push({ node, ...ref });
        },
        probe: async () => {
          if (this.probeBoot === undefined) throw new Error("no answer");
          return { boot: this.probeBoot };
        },
        deliver: async (entry) => {
          if (this.refuseDeliveries-- > 0) throw new Error("not now");
          this.delivered.push(entry);
        },
        log: () => {},
      },
      SchedulerConfig.parse(config),
    );
  }

  submit(request: Record<string, unknown> = {}) {
    const filled = Submit.parse({ kind: "noop", payload: {}, ...request });
    return this.leader.submit({ ...filled, owner: (request["owner"] as string) ?? "member:1" });
  }

  beat(node: string, attempts: AttemptReport[] = [], report: Partial<NodeReport> = {}) {
    const gpu = { count: 0, idle: 0, usedPercent: 0 };
    const load = { cpuPercent: 0, memoryPercent: 0, gpu, draining: false };
    const named = { node, boot: `${node}-1`, kinds: ["noop"], slots: 1 };
    return this.leader.heartbeat({ ...named, ...load, ...report }, attempts);
  }

  /** Moves the clock and does what is due, as the service's timer would. */
  async pass(ms: number): Promise<void> {
    const end = this.now + ms;
    for (let steps = 0; steps < 1_000; steps++) {
      await this.settle();
      const wakeAt = this.leader.nextWakeAt();
      if (wakeAt === undefined || wakeAt > end) break;
      this.now = Math.max(this.now, wakeAt);
      await this.leader.tick();
    }
    this.now = end;
  }

  /** Lets everything that is under way come to its end. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  get lastOrder() {
    const { jobId, attempt, node, boot } = this.orders.at(-1)!;
    return { jobId, attempt, node, boot };
  }
}

const result = (hash = "h") => ({ hash, outputs: [], info: {} });
const held = (order: { jobId: string; attempt: number }, progress = 0): AttemptReport => ({
  jobId: order.jobId,
  attempt: order.attempt,
  progress,
});

describe("accepting", () => {
  test("a job goes to a free node in the commit that accepts it", async () => {
    const world = await World.start();
    await world.beat("n1");
    const job = await world.submit();
    expect(job).toMatchObject({ state: "running", attempt: 1, node: "n1", repeated: false });
    expect(world.lastOrder).toEqual({ jobId: job.id, attempt: 1, node: "n1", boot: "n1-1" });
  });
  test("without a free node it waits, and goes as soon as a slot comes free", async () => {
    const world = await World.start();
    await world.beat("n1");
    await world.submit();
    const second = await world.submit();
    expect(second.state).toBe("pending");
    await world.leader.complete({ ...world.lastOrder, result: result() });
    await world.settle();
    expect(world.lastOrder).toMatchObject({ jobId: second.id, attempt: 1 });
  });
  test("an idempotency key gives the earlier job again, another request with it is refused", async () => {
    const world = await World.start();
    const first = await world.submit({ idempotencyKey: "k", payload: { a: 1, b: 2 } });
    const again = await world.submit({ idempotencyKey: "k", payload: { b: 2, a: 1 }, delayMs: 5 });
    expect(again).toMatchObject({ id: first.id, repeated: true });
    await expect(world.submit({ idempotencyKey: "k", payload: {} })).rejects.toMatchObject({
      type: "IDEMPOTENCY_MISMATCH",
    });
  });
  test("a full queue refuses the next job but still knows the earlier ones", async () => {
    const world = await World.start({ pendingMax: 2 });
    const first = await world.submit({ idempotencyKey: "k" });
    const results = await world.leader.submitMany(
      [1, 2].map(() => ({ ...Submit.parse({ kind: "noop", payload: {} }), owner: "o" })),
    );
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    await expect(world.submit()).rejects.toMatchObject({ type: "QUEUE_FULL" });
    expect(await world.submit({ idempotencyKey: "k" })).toMatchObject({ id: first.id });
  });
  test("a delayed job is placed when it is due, not before", async () => {
    const world = await World.start();
    await world.beat("n1");
    await world.submit({ delayMs: 3_000 });
    await world.leader.tick();
    expect(world.leader.nextWakeAt()).toBe(T0 + 3_000);
    await world.pass(2_999);
    expect(world.orders).toHaveLength(0);
    await world.pass(1);
    expect(world.orders).toHaveLength(1);
  });
  test("a paused queue places nothing until it is resumed, also after a restart", async () => {
    const world = await World.start();
    await world.leader.pause("default");
    await world.restart();
    await world.beat("n1");
    expect((await world.submit()).state).toBe("pending");
    await world.leader.resume("default");
    await world.settle();
    expect(world.orders).toHaveLength(1);
  });
});

describe("leases", () => {
  test("a job whose node is silent goes to another when the lease ends, and the late result is fenced", async () => {
    const world = await World.start();
    await world.beat("n1");
    await world.submit();
    const first = world.lastOrder;
    await world.pass(19_000);
    await world.beat("n2");
    expect(world.orders).toHaveLength(1);
    await world.pass(2_000);
    const second = world.lastOrder;
    expect(second).toMatchObject({ jobId: first.jobId, attempt: 2, node: "n2" });
    expect(await world.leader.complete({ ...first, result: result("old") })).toEqual({
      outcome: "fenced",
    });
    expect(await world.leader.complete({ ...second, result: result("new") })).toEqual({
      outcome: "committed",
    });
    expect(await world.leader.get(first.jobId)).toMatchObject({
      result: { hash: "new" },
      nodesLost: 1,
      errors: 0,
    });
  });
  test("heartbeats keep a lease alive and carry progress", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    for (let beat = 1; beat <= 10; beat++) {
      await world.pass(5_000);
      const answer = await world.beat("n1", [held(world.lastOrder, beat / 20)]);
      expect(answer.renewed).toEqual([{ jobId: id, attempt: 1, leaseMs: 20_000 }]);
    }
    expect(await world.leader.get(id)).toMatchObject({ attempt: 1, progress: 0.5 });
  });
  test("a node that comes back with another boot id loses its leases at once", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    await world.beat("n1", [], { boot: "n1-2" });
    await world.settle();
    expect(world.lastOrder).toMatchObject({ jobId: id, attempt: 2, boot: "n1-2" });
    const late = await world.beat("n1", [{ jobId: id, attempt: 1, progress: 0 }]);
    expect(late.fenced).toMatchObject([{ attempt: 1, reason: "superseded" }]);
    expect(await world.leader.get(id)).toMatchObject({ attempt: 2, state: "running" });
  });
  test("a lost connection only asks the node; it keeps its work while its boot is the same", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    await world.leader.nodeLost("n1");
    world.probeBoot = "n1-1";
    await world.leader.nodeLost("n1");
    expect(await world.leader.get(id)).toMatchObject({ state: "running", attempt: 1 });
    world.probeBoot = "n1-2";
    await world.leader.nodeLost("n1");
    expect(await world.leader.get(id)).toMatchObject({ state: "pending", nodesLost: 1 });
  });
  test("a job that fells three nodes is parked until an operator retries it", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    for (let boot = 2; boot <= 4; boot++) {
      await world.beat("n1", [], { boot: `n1-${boot}` });
      await world.settle();
    }
    expect(await world.leader.get(id)).toMatchObject({
      state: "failed",
      attempt: 3,
      error: { type: "JOB_PARKED" },
    });
    await world.leader.retry(id);
    await world.settle();
    expect(world.lastOrder).toMatchObject({ jobId: id, attempt: 4 });
  });
  test("leases that ended while the scheduler was away go on for two reports of the node", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    world.now += 60_000;
    await world.restart();
    await world.pass(1_000);
    expect(await world.leader.get(id)).toMatchObject({ state: "running", attempt: 1 });
    await world.pass(2 * SchedulerConfig.parse({}).heartbeatMs);
    expect(await world.leader.get(id)).toMatchObject({ state: "pending", nodesLost: 0 });
  });
});

describe("outputs of attempts that lost", () => {
  const removals = (world: World) =>
    world.delivered.filter(({ action }) => action === "storage.removeOutputs");

  test("are removed when the job has ended, all but those of the winner", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    const order = world.orders[0]!;
    await world.leader.fail({
      ...order,
      node: "n1",
      error: { type: "RENDER_FAILED", message: "" },
      retryable: true,
    });
    await world.pass(10_000);
    await world.beat("n1");
    await world.settle();
    await world.leader.complete({
      jobId: id,
      attempt: 2,
      node: "n1",
      boot: order.boot,
      result: { hash: "h", outputs: [], info: {} },
    });
    await world.settle();
    expect(removals(world).map(({ params }) => params)).toEqual([{ jobId: id, upTo: 2, keep: 2 }]);
  });

  test("are not looked for when the first attempt won", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    const { boot } = world.orders[0]!;
    const result = { hash: "h", outputs: [], info: {} };
    await world.leader.complete({ jobId: id, attempt: 1, node: "n1", boot, result });
    await world.settle();
    expect(removals(world)).toEqual([]);
  });
});

describe("orders to nodes", () => {
  test("an unanswered order is repeated with the node's next report, with the same attempt", async () => {
    const world = await World.start();
    await world.beat("n1");
    world.outcome = "silent";
    await world.submit();
    await world.settle();
    world.outcome = "accepted";
    await world.beat("n1");
    await world.settle();
    await world.beat("n1");
    expect(world.orders.map(({ attempt }) => attempt)).toEqual([1, 1]);
  });
  test("a scheduler that died between claim and order sends it after its restart", async () => {
    const world = await World.start();
    await world.beat("n1");
    world.outcome = "silent";
    const { id } = await world.submit();
    world.outcome = "accepted";
    await world.restart();
    await world.beat("n1");
    expect(world.orders).toHaveLength(2);
    expect(world.lastOrder).toMatchObject({ jobId: id, attempt: 1 });
  });
  test("a refusal frees the job for another node; the refusing one gets nothing until it reports", async () => {
    const world = await World.start();
    await world.beat("n1");
    world.outcome = "refused";
    const { id } = await world.submit();
    await world.settle();
    expect(await world.leader.get(id)).toMatchObject({ state: "pending", errors: 0, nodesLost: 0 });
    expect(world.orders).toHaveLength(1);
    world.outcome = "accepted";
    await world.beat("n2");
    await world.settle();
    expect(world.lastOrder).toMatchObject({ jobId: id, node: "n2", attempt: 2 });
  });
  test("a draining node hands its work back without cost and gets no more", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    const { node, boot, attempt } = world.lastOrder;
    const back = await world.leader.handBack({
      node,
      boot,
      attempts: [{ jobId: id, attempt }],
      cause: "drain",
    });
    await world.settle();
    expect(back).toEqual({ returned: 1 });
    expect(await world.leader.get(id)).toMatchObject({ state: "pending", errors: 0, nodesLost: 0 });
    expect(world.orders).toHaveLength(1);
  });
});

describe("errors and limits", () => {
  test("a failed attempt is repeated after its backoff, the last one fails the job", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit({ attemptsMax: 2, backoffMs: 1_000 });
    const error = { type: "RENDER_FAILED", message: "no" };
    await world.leader.fail({ ...world.lastOrder, error, retryable: true });
    await world.pass(499);
    expect(world.orders).toHaveLength(1);
    await world.pass(501);
    expect(world.lastOrder).toMatchObject({ attempt: 2 });
    await world.leader.fail({ ...world.lastOrder, error, retryable: true });
    expect(await world.leader.get(id)).toMatchObject({ state: "failed", errors: 2, error });
  });
  test("an attempt over its time is halted and its node told so", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit({ timeoutMs: 7_000, attemptsMax: 1 });
    await world.pass(5_000);
    await world.beat("n1", [held(world.lastOrder)]);
    await world.pass(3_000);
    expect(world.halts).toMatchObject([{ node: "n1", jobId: id, reason: "timeout" }]);
    expect(await world.leader.get(id)).toMatchObject({
      state: "failed",
      error: { type: "JOB_TIMEOUT" },
    });
    const { fenced } = await world.beat("n1", [held(world.lastOrder)]);
    expect(fenced).toMatchObject([{ reason: "timeout" }]);
  });
  test("an attempt without progress is stalled though its heartbeats come", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit({ stallMs: 12_000, attemptsMax: 1 });
    for (let beat = 0; beat < 3; beat++) {
      await world.pass(5_000);
      await world.beat("n1", [held(world.lastOrder)]);
    }
    expect(await world.leader.get(id)).toMatchObject({ error: { type: "JOB_STALLED" } });
  });
});

describe("cancel", () => {
  test("of a running job halts its node, repeats itself in heartbeat answers and may be repeated", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    expect(await world.leader.cancel(id, "no longer needed")).toMatchObject({ state: "cancelled" });
    expect(world.halts).toMatchObject([{ jobId: id, reason: "cancelled" }]);
    const { fenced } = await world.beat("n1", [held(world.lastOrder)]);
    expect(fenced).toEqual([{ jobId: id, attempt: 1, reason: "cancelled" }]);
    expect(await world.leader.cancel(id)).toMatchObject({ state: "cancelled" });
  });
  test("comes before a retry that waits for its backoff", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    const error = { type: "RENDER_FAILED", message: "no" };
    await world.leader.fail({ ...world.lastOrder, error, retryable: true });
    await world.leader.cancel(id);
    await world.pass(60_000);
    expect(world.orders).toHaveLength(1);
    expect(world.leader.nextWakeAt()).toBeUndefined();
  });
  test("of a job that has ended, or that nobody knows, is an error", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    await world.leader.complete({ ...world.lastOrder, result: result() });
    await expect(world.leader.cancel(id)).rejects.toMatchObject({ type: "JOB_ENDED" });
    await expect(world.leader.cancel("nobody")).rejects.toMatchObject({ type: "JOB_NOT_FOUND" });
    await expect(world.leader.retry(id)).rejects.toMatchObject({ type: "CONFLICT" });
  });
});

describe("outbox", () => {
  test("a callback is repeated until its receiver took it, across a restart", async () => {
    const world = await World.start();
    await world.beat("n1");
    const onSettled = { action: "run.settled", params: { run: 7 } };
    const { id } = await world.submit({ onSettled });
    world.refuseDeliveries = 2;
    await world.leader.complete({ ...world.lastOrder, result: result() });
    await world.settle();
    await world.restart();
    await world.pass(10_000);
    expect(world.delivered).toMatchObject([
      {
        jobId: id,
        action: "run.settled",
        params: { job: { id, state: "success" }, params: { run: 7 } },
      },
    ]);
    expect(await world.store.outboxPending(9)).toEqual([]);
  });
});

describe("a store that fails", () => {
  test("a submission that was not stored is refused and holds no slot", async () => {
    const world = await World.start();
    await world.beat("n1");
    world.store.fault = "lost";
    await expect(world.submit()).rejects.toMatchObject({ type: "UNAVAILABLE" });
    world.store.fault = "full";
    await expect(world.submit()).rejects.toMatchObject({ type: "DISK_FULL" });
    await world.pass(1_000);
    expect((await world.submit()).state).toBe("running");
  });
  test("a write whose answer was lost counts as what it was", async () => {
    const world = await World.start();
    await world.beat("n1");
    world.store.fault = "answer-lost";
    const { id } = await world.submit();
    world.store.fault = "answer-lost";
    expect(await world.leader.complete({ ...world.lastOrder, result: result() })).toEqual({
      outcome: "committed",
    });
    expect(await world.store.get(id)).toMatchObject({ state: "success" });
  });
  test("the callback of a job whose end was stored without an answer is made", async () => {
    const world = await World.start();
    await world.beat("n1");
    await world.submit({ onSettled: { action: "run.settled", params: {} } });
    world.store.fault = "answer-lost";
    world.store.isUnreadable = true;
    await expect(
      world.leader.complete({ ...world.lastOrder, result: result() }),
    ).rejects.toMatchObject({ type: "UNAVAILABLE" });
    world.store.isUnreadable = false;
    await world.pass(5_000);
    expect(world.delivered).toHaveLength(1);
  });
  test("a job that was stored without an answer is run once its client asks again", async () => {
    const world = await World.start();
    await world.beat("n1");
    world.store.fault = "late";
    const request = { idempotencyKey: "k" };
    await expect(world.submit(request)).rejects.toMatchObject({ type: "UNAVAILABLE" });
    await world.pass(1_000);
    expect(world.orders).toHaveLength(0);
    await world.store.comeThrough();
    const { id, repeated } = await world.submit(request);
    expect(repeated).toBe(true);
    await world.pass(1_000);
    expect(await world.leader.get(id)).toMatchObject({ state: "running", attempt: 1 });
  });
  test("a claim that could not be stored is tried again", async () => {
    const world = await World.start();
    const { id } = await world.submit();
    world.store.fault = "lost";
    await world.beat("n1");
    await world.pass(2_000);
    expect(world.lastOrder).toMatchObject({ jobId: id, attempt: 1 });
  });
});

describe("a leader whose time is over", () => {
  const notLeader = { type: "NOT_LEADER" };
  const second = async (world: World) => {
    const seen = await world.store.leadership();
    return (await world.store.takeOver(seen, "second"))!.term;
  };

  test("closes itself when the store refuses a change: it answers, places and sends nothing more", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    await second(world);
    await expect(
      world.leader.complete({ ...world.lastOrder, result: result() }),
    ).rejects.toMatchObject(notLeader);
    expect(world.depositions).toBe(1);
    for (const call of [
      () => world.submit(),
      () => world.leader.get(id),
      () => world.leader.cancel(id),
      () => world.beat("n2", [held(world.lastOrder)]),
      () => world.leader.stats(),
    ])
      await expect(call()).rejects.toMatchObject(notLeader);
    await world.pass(60_000);
    expect(world.orders).toHaveLength(1);
    expect(world.depositions).toBe(1);
    expect(world.leader.nextWakeAt()).toBeUndefined();
    expect(await world.store.get(id)).toMatchObject({ state: "running" });
  });

  test("was stopped for longer than its lease: it asks the clock before it tells what it remembers", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    world.holdsLease = false;
    await expect(world.leader.get(id)).rejects.toMatchObject(notLeader);
    expect(world.depositions).toBe(1);
    world.holdsLease = true;
    await expect(world.beat("n1")).rejects.toMatchObject(notLeader);
  });

  test("lost its lease while it looked something up: the answer is not given", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    const pending = world.leader.complete({ ...world.lastOrder, attempt: 7, result: result() });
    world.holdsLease = false;
    await expect(pending).rejects.toMatchObject(notLeader);
    expect(await world.store.get(id)).toMatchObject({ state: "running", history: { attempt: 1 } });
  });

  test("lost its lease while a job was being stored: the job counts, and the client hears of it", async () => {
    const world = await World.start();
    const pending = world.submit();
    world.holdsLease = false;
    const { id } = await pending;
    expect(await world.store.get(id)).toMatchObject({ state: "pending" });
  });

  test("sends nothing after its lease, though a change of its own was stored", async () => {
    const world = await World.start();
    await world.beat("n1");
    const pending = world.submit();
    world.holdsLease = false;
    await pending;
    await world.settle();
    expect(world.orders).toHaveLength(0);
  });
});

describe("a change of the leader", () => {
  test("costs no attempt: the new one takes the running jobs over with their leases", async () => {
    const world = await World.start();
    await world.beat("n1");
    const { id } = await world.submit();
    const order = world.lastOrder;
    await world.pass(5_000);
    await world.beat("n1", [held(order, 0.2)]);
    world.leader.close();
    // The node's report falls into the gap; the next one finds the new leader.
    world.now += 9_000;
    const seen = await world.store.leadership();
    world.term = (await world.store.takeOver(seen, "second"))!.term;
    await world.restart();
    await world.pass(3_000);
    expect(await world.leader.get(id)).toMatchObject({ state: "running", attempt: 1 });
    expect((await world.beat("n1", [held(order, 0.6)])).renewed).toMatchObject([{ jobId: id }]);
    await world.pass(15_000);
    expect(await world.leader.complete({ ...order, result: result() })).toEqual({
      outcome: "committed",
    });
    expect(await world.leader.get(id)).toMatchObject({ attempt: 1, nodesLost: 0 });
    expect(world.orders).toHaveLength(1);
  });

  test("a job that the earlier leader stored late is adopted and run", async () => {
    const world = await World.start({}, new FlakyStore({ fencesInserts: false }));
    world.store.exclusive = false;
    const seen = await world.store.leadership();
    world.term = (await world.store.takeOver(seen, "second"))!.term;
    await world.restart();
    await world.beat("n1");
    const late = pendingJob("late", { createdAt: T0, dueAt: T0 });
    expect(await world.store.change({ next: late, term: 0, expectedVersion: 0 })).toEqual({
      stored: true,
    });
    expect(world.orders).toHaveLength(0);
    await world.pass(6_000);
    expect(world.lastOrder).toMatchObject({ jobId: "late", attempt: 1 });
  });
});

describe("time", () => {
  test("an idle scheduler asks for no wake-up", async () => {
    const world = await World.start();
    await world.leader.tick();
    await world.beat("n1");
    expect(world.leader.nextWakeAt()).toBeUndefined();
    await world.submit();
    expect(world.leader.nextWakeAt()).toBe(T0 + 20_000);
    await world.leader.complete({ ...world.lastOrder, result: result() });
    expect(world.leader.nextWakeAt()).toBeUndefined();
  });
});

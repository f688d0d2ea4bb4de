import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import type { Job, JobSpec, NodeReport } from "../../services/scheduler/job.types.ts";
import { PendingIndex } from "../../services/scheduler/pending-index.ts";
import { chooseNode, explain, type NodeLoad } from "../../services/scheduler/placement.policy.ts";
import { pendingJob } from "../support/job-store.suite.ts";

const T0 = 1_700_000_000_000;
const POINT_MS = 10_000;
const FRESH_MS = 15_000;

const node = (
  name: string,
  load: Partial<NodeLoad> = {},
  report: Partial<NodeReport> = {},
): NodeLoad => ({
  report: {
    node: name,
    boot: `${name}-boot`,
    kinds: ["noop"],
    slots: 2,
    cpuPercent: 0,
    memoryPercent: 0,
    gpu: { count: 0, idle: 0, usedPercent: 0 },
    draining: false,
    ...report,
  },
  used: 0,
  seenAt: T0,
  suspect: false,
  ...load,
});
const gpu = { count: 1, idle: 1, usedPercent: 0 };
const choose = (nodes: NodeLoad[], needs = {}) =>
  chooseNode({ kind: "noop", gpu: false, ...needs }, nodes, T0, FRESH_MS);

describe("choice of a node", () => {
  test("each node that cannot take the job is named with its reason", () => {
    const { chosen, rejected } = choose([
      node("full", { used: 2 }),
      node("stale", { seenAt: T0 - FRESH_MS - 1 }),
      node("suspect", { suspect: true }),
      node("draining", {}, { draining: true }),
      node("kind", {}, { kinds: ["render"] }),
    ]);
    expect(chosen).toBeUndefined();
    expect(rejected.map(({ node: name, reason }) => name === reason)).toEqual(Array(5).fill(true));
  });
  test("the least loaded wins: slots first, then CPU, then name", () => {
    expect(choose([node("a", { used: 1 }), node("b")]).chosen?.node).toBe("b");
    expect(choose([node("a", {}, { cpuPercent: 90 }), node("b")]).chosen?.node).toBe("b");
    expect(choose([node("b"), node("a", {}, { cpuPercent: 4 })]).chosen?.node).toBe("a");
  });
  test("a retry goes to another node than the last, but rather there than nowhere", () => {
    const again = { lastNode: "a" };
    expect(choose([node("a"), node("b", { used: 1 })], again).chosen?.node).toBe("b");
    expect(choose([node("a"), node("b", { used: 2 })], again).chosen?.node).toBe("a");
  });
  test("a job that needs a GPU gets one, others leave such nodes alone while they can", () => {
    const nodes = [node("cpu", { used: 1 }), node("gpu", {}, { gpu })];
    expect(choose(nodes, { gpu: true })).toMatchObject({
      chosen: { node: "gpu" },
      rejected: [{ node: "cpu", reason: "no-gpu" }],
    });
    expect(choose(nodes).chosen?.node).toBe("cpu");
  });
  test("the log line names the choice and a bounded number of nodes passed over", () => {
    const placement = choose([node("a"), node("b", { used: 2 }), node("c", { used: 2 })]);
    expect(explain(placement, 1)).toBe(
      "the only node that fits, 0 of 2 slots in use; passed over b (full) and 1 more",
    );
  });
});

const job = (id: string, spec: Partial<JobSpec> = {}, readyAt = T0) =>
  ({ ...pendingJob(id, { createdAt: T0, dueAt: T0, ...spec }), readyAt }) as Job & {
    state: "pending";
  };
const anywhere = () => true;
function indexOf(...jobs: (Job & { state: "pending" })[]): PendingIndex {
  const index = new PendingIndex(POINT_MS);
  for (const each of jobs) index.add(each, T0);
  return index;
}
function drain(index: PendingIndex, now = T0): string[] {
  const order: string[] = [];
  for (let next = index.take(now, anywhere); next; next = index.take(now, anywhere))
    order.push(next.spec.id);
  return order;
}

describe("order of waiting jobs", () => {
  test("more urgent first, then the older", () => {
    const index = indexOf(
      job("late", { dueAt: T0 + 1 }),
      job("early"),
      job("urgent", { priority: 10, dueAt: T0 + 2 }),
    );
    expect(drain(index)).toEqual(["urgent", "early", "late"]);
  });
  test("waiting lifts a job over a more urgent one that came a point's worth later", () => {
    const old = job("old", { priority: 60 });
    const later = T0 + 11 * POINT_MS;
    expect(drain(indexOf(old, job("new", { priority: 50, dueAt: later })), later)).toEqual([
      "old",
      "new",
    ]);
  });
  test("owners of the same level take turns, however much one has submitted", () => {
    const flood = Array.from({ length: 6 }, (_, n) => job(`a${n}`, { owner: "a" }));
    const index = indexOf(...flood, job("b0", { owner: "b" }), job("b1", { owner: "b" }));
    expect(drain(index)).toEqual(["a0", "b0", "a1", "b1", "a2", "a3", "a4", "a5"]);
  });
  test("a flood that was first does not hold back a fully aged job of another owner", () => {
    const flood = Array.from({ length: 100 }, (_, n) => job(`a${n}`, { owner: "a" }));
    const index = indexOf(...flood);
    const later = T0 + 60 * 60_000;
    index.add(job("b", { owner: "b", dueAt: later }, later), later);
    expect(drain(index, later + 50 * POINT_MS).indexOf("b")).toBeLessThanOrEqual(1);
  });
  test("a delayed job is not taken before its time, then by its age", () => {
    const index = indexOf(job("now"), job("later", { dueAt: T0 + 500 }, T0 + 500));
    expect([index.size, index.readyCount, index.nextReadyAt()]).toEqual([2, 1, T0 + 500]);
    expect(drain(index)).toEqual(["now"]);
    index.promote(T0 + 499);
    expect(drain(index, T0 + 499)).toEqual([]);
    index.promote(T0 + 500);
    expect(drain(index, T0 + 500)).toEqual(["later"]);
    expect(index.nextReadyAt()).toBeUndefined();
  });
  test("lanes without room are passed over and keep their order", () => {
    const index = indexOf(
      job("g", { requires: { gpu: true } }),
      job("c"),
      job("p", { queue: "p" }),
    );
    expect(index.take(T0, ({ gpu: needsGpu }) => !needsGpu)?.spec.id).toBe("c");
    expect(index.take(T0, ({ queue }) => queue === "p")?.spec.id).toBe("p");
    expect(drain(index)).toEqual(["g"]);
  });
  test("removed jobs never come, at any point of the queue", () => {
    const index = indexOf(...["a", "b", "c", "d"].map((id) => job(id)));
    index.add(job("e", {}, T0 + 5), T0);
    for (const id of ["a", "c", "e", "unknown"]) index.remove(id);
    expect([index.size, index.nextReadyAt()]).toEqual([2, undefined]);
    expect(drain(index)).toEqual(["b", "d"]);
  });
  test("whatever is added, changed and removed, each waiting job comes out exactly once", () => {
    const action = fc.record({
      verb: fc.constantFrom("add", "remove", "take"),
      id: fc.integer({ min: 0, max: 12 }),
      owner: fc.constantFrom("a", "b", "c"),
      priority: fc.integer({ min: 1, max: 100 }),
      waitMs: fc.integer({ min: 0, max: 2_000_000 }),
    });
    const property = fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
      const index = new PendingIndex(POINT_MS);
      const expected = new Set<string>();
      let now = T0;
      for (const { verb, id, owner, priority, waitMs } of actions) {
        const name = `j${id}`;
        now += waitMs;
        if (verb === "add") {
          index.add(job(name, { owner, priority, dueAt: now }, now), now);
          expected.add(name);
        } else if (verb === "remove") {
          index.remove(name);
          expected.delete(name);
        } else {
          const taken = index.take(now, anywhere)?.spec.id;
          if (expected.size === 0) expect(taken).toBeUndefined();
          else expect(expected.delete(taken!)).toBe(true);
        }
        expect(index.readyCount).toBe(expected.size);
      }
      expect(drain(index, now).sort()).toEqual([...expected].sort());
    });
    fc.assert(property, { numRuns: 300, seed: 7 });
  });
  test("no job waits for ever while others of its urgency and above keep coming", () => {
    const index = indexOf(job("last", { priority: 100, owner: "patient" }));
    let now = T0;
    let served: Job | undefined;
    // One job is served a second, and two more urgent ones arrive: the queue only grows.
    for (let second = 0; served?.spec.id !== "last"; second++) {
      if (second > 1_100) throw new Error("still waiting");
      now += 1_000;
      for (const n of [0, 1])
        index.add(job(`${second}-${n}`, { priority: 1, owner: `o${n}`, dueAt: now }, now), now);
      served = index.take(now, anywhere);
    }
    expect(now - T0).toBeLessThanOrEqual(99 * POINT_MS + 3_000);
  });
});

import { beforeEach, describe, expect, test } from "@jest/globals";
import { nodeLimits } from "../../services/compose/config.ts";
import { NodeAgent } from "../../services/compose/node-agent.ts";
import type { NodePorts } from "../../services/compose/node-ports.ts";
import { AttemptDesk } from "../../services/compose/standalone/attempt-desk.ts";
import { QuestionBox } from "../../services/compose/standalone/question-box.ts";

const boot = "boot-1";
const jobId = "job-1";
const load = { cpuPercent: 0, memoryPercent: 0, gpu: { count: 0, idle: 0, usedPercent: 0 } };
const report = { ...load, kinds: ["noop"], slots: 1 };
const result = { hash: "h", outputs: [], info: {} };
const order = (attempt: number) => ({
  jobId,
  attempt,
  kind: "noop",
  payload: {},
  owner: "t:t",
  leaseMs: 20_000,
  boot,
});

/** Lets every promise go on that can. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

let now: number;
let desk: AttemptDesk;
let agent: NodeAgent;
let finish: (() => void)[];
let discarded: number;

beforeEach(async () => {
  now = 1_000;
  finish = [];
  discarded = 0;
  desk = new AttemptDesk(boot, () => now);
  const nothing = () => Promise.resolve();
  const ports: NodePorts = {
    ...desk.ports,
    nowMonotonic: () => now,
    journal: {
      add: nothing,
      addProcess: nothing,
      release: nothing,
      remove: nothing,
      entries: () => [],
    },
    execute: (_order, signal) =>
      new Promise((resolve) => {
        finish.push(() => resolve({ ok: true, result }));
        const error = { type: "SIM_ABORTED", message: "aborted" };
        signal.addEventListener("abort", () => resolve({ ok: false, error, retryable: true }));
      }),
    discardOutput: async (key) => {
      discarded += 1;
      await desk.ports.discardOutput(key);
    },
    killOrphan: nothing,
    log: () => undefined,
    wakeAt: () => undefined,
  };
  const identity = { node: "bridge", boot, slots: 1, kinds: ["noop"] };
  agent = new NodeAgent(identity, ports, { ...nodeLimits, heartbeatMs: 1_000 });
  await agent.recover();
  await pass(0);
});

async function pass(ms: number): Promise<void> {
  now += ms;
  agent.tick(now);
  await settle();
}
const held = () => desk.status(agent, report).attempts.map(({ attempt }) => attempt);
const renew = (attempt: number, mark: number, of = boot) =>
  desk.attempt(agent, { job_id: jobId, attempt, boot: of, mark, lease_ms: 20_000 }).renewed;

describe("the desk between a node and a scheduler that can only ask", () => {
  test("a lease counts from the mark that was renewed, not from when the renewal came", async () => {
    await desk.begin(agent, order(1));
    await pass(1_000);
    const { mark } = desk.status(agent, report);
    await pass(4_000);
    expect(renew(1, mark)).toBe(true);
    for (let second = 0; second < 15; second += 1) await pass(1_000);
    expect(held()).toEqual([1]);
    // 20 s after the mark, 16 s after the renewal.
    await pass(1_000);
    expect(held()).toEqual([]);
  });

  test("a renewal that is late, of another run, or from the future is not believed", async () => {
    await desk.begin(agent, order(1));
    await pass(1_000);
    const { mark } = desk.status(agent, report);
    await pass(5_001);
    expect(renew(1, mark)).toBe(false);
    expect(renew(1, now, "boot-0")).toBe(false);
    expect(renew(1, now + 1)).toBe(false);
    expect(renew(2, now)).toBe(false);
    expect(renew(1, now)).toBe(true);
  });

  test("an end is told until it is answered, whatever gets lost", async () => {
    await desk.begin(agent, order(1));
    await pass(0);
    finish[0]?.();
    await settle();
    const [question] = desk.status(agent, report).questions;
    expect(question).toMatchObject({ type: "complete", jobId, attempt: 1 });
    const ask = () => desk.attempt(agent, { job_id: jobId, attempt: 1 });
    expect(ask()).toMatchObject({ status: "success", result });
    const id = question?.id as string;
    desk.answer({ boot: "boot-0", id, word: "taken" });
    await settle();
    expect(ask().status).toBe("success");
    desk.answer({ boot, id, word: "taken" });
    desk.answer({ boot, id, word: "fenced" });
    await settle();
    expect(ask().status).toBe("unknown");
    expect(discarded).toBe(0);
    expect(desk.isFree(agent)).toBe(true);
  });

  test("an attempt that lost asks for its output to be deleted before it is over", async () => {
    await desk.begin(agent, order(1));
    await pass(0);
    finish[0]?.();
    await settle();
    const first = desk.status(agent, report).questions[0]?.id as string;
    desk.answer({ boot, id: first, word: "fenced" });
    await settle();
    expect(desk.status(agent, report).questions).toMatchObject([{ type: "discardOutput" }]);
    const second = desk.status(agent, report).questions[0]?.id as string;
    // A storage that is away: asked again.
    desk.answer({ boot, id: second, failed: "the storage is away" });
    await settle();
    await pass(1_000);
    expect(desk.status(agent, report).questions).toMatchObject([{ type: "discardOutput" }]);
    desk.answer({ boot, id: second });
    await settle();
    expect(desk.isFree(agent)).toBe(true);
  });

  test("until what an earlier run left is dead there is no status, and no order is taken", async () => {
    const early = new AttemptDesk("boot-2", () => now);
    expect(() => early.status(agent, report)).toThrow(/starting/);
    expect(await early.begin(agent, order(1))).toMatchObject({ outcome: "refused" });
  });

  test("questions have a bound, and asking again is the same question", async () => {
    const box = new QuestionBox(1);
    const question = { id: "a", type: "isCommitted", jobId, attempt: 1 } as const;
    expect(box.ask(question)).toBe(box.ask(question));
    await expect(box.ask({ ...question, id: "b" })).rejects.toThrow(/too many/);
    box.answer({ boot, id: "a", committed: true });
    expect(box.list()).toEqual([]);
  });
});

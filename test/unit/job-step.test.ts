import { readFileSync } from "node:fs";
import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import type { JobMessage } from "../../services/scheduler/job.messages.ts";
import { backoffDelayMs, fenceReason, step } from "../../services/scheduler/job.step.ts";
import { type Job, type JobState, jobStates } from "../../services/scheduler/job.types.ts";
import {
  exampleJobs,
  exampleMessages,
  jobStatesPage,
  outcomeOf,
} from "../../services/scheduler/job-diagram.ts";

const NOT_CURRENT = "ignored: not-current";
/** Only a running job answers to what is said of an attempt. */
const onlyRunning = (target: JobState) => [
  NOT_CURRENT,
  target,
  NOT_CURRENT,
  NOT_CURRENT,
  NOT_CURRENT,
];

// One row a message, one column a state, in the order of `jobStates`.
const table: Record<string, string[]> = {
  claim: ["running", ...Array(4).fill("ignored: not-pending")],
  accepted: onlyRunning("running"),
  refused: onlyRunning("pending"),
  renew: onlyRunning("running"),
  complete: [NOT_CURRENT, "success", "ignored: already-done", NOT_CURRENT, NOT_CURRENT],
  "fail, attempts left": onlyRunning("pending"),
  "fail, not retryable": onlyRunning("failed"),
  "fail, last attempt": onlyRunning("failed"),
  handBack: onlyRunning("pending"),
  leaseExpired: onlyRunning("pending"),
  "leaseExpired, third node lost": onlyRunning("failed"),
  nodeGone: onlyRunning("pending"),
  "nodeGone, third node lost": onlyRunning("failed"),
  "handBack after a restart, third node lost": onlyRunning("failed"),
  cancel: [
    "cancelled",
    "cancelled",
    "ignored: already-ended",
    "ignored: already-ended",
    "ignored: already-done",
  ],
  retry: [
    "ignored: not-ended",
    "ignored: not-ended",
    "ignored: already-ended",
    "pending",
    "pending",
  ],
  timeout: onlyRunning("pending"),
  stall: onlyRunning("pending"),
  "timeout, last attempt": onlyRunning("failed"),
  "stall, last attempt": onlyRunning("failed"),
};

const running = exampleJobs.running as Job & { state: "running" };
const holder = { attempt: 1, node: "n1", boot: "b1" };
const result = { hash: "h", outputs: [], info: {} };
const error = { type: "RENDER_FAILED", message: "it failed" };

/** The job after a message that must not be ignored, and what follows from it. */
function moved(job: Job, message: JobMessage, now = 1_000) {
  const made = step(job, message, now);
  if (made.outcome !== "changed") throw new Error(`ignored: ${made.reason}`);
  return made;
}
const kinds = (effects: readonly { type: string }[]) => effects.map(({ type }) => type);

describe("every state and message", () => {
  test("each example message has a row in the table", () => {
    expect(exampleMessages.map(({ label }) => label).sort()).toEqual(Object.keys(table).sort());
  });
  test.each(exampleMessages)("$label leads where the table says", (example) => {
    expect(jobStates.map((state) => outcomeOf(state, example))).toEqual(table[example.label]);
  });
  test("the diagram in the documentation is the one that the state machine gives", () => {
    const path = new URL("../../services/scheduler/job-states.generated.md", import.meta.url);
    expect(readFileSync(path, "utf8")).toBe(jobStatesPage());
  });
});

describe("attempts", () => {
  test("a claim raises the attempt and orders the node to begin", () => {
    const { job, effects } = moved(exampleJobs.pending, {
      type: "claim",
      node: "n2",
      boot: "b9",
      leaseMs: 20_000,
    });
    expect(job).toMatchObject({ state: "running", leaseUntil: 21_000, accepted: false });
    expect(job.history).toMatchObject({ attempt: 1, lastNode: "n2", version: 2 });
    expect(effects).toContainEqual({ type: "begin", node: "n2", boot: "b9", attempt: 1 });
  });
  test("a delayed job cannot be claimed before it is due", () => {
    const job: Job = { ...exampleJobs.pending, state: "pending", readyAt: 2_000 };
    const claim = { type: "claim", node: "n", boot: "b", leaseMs: 1 } as const;
    expect(step(job, claim, 1_999)).toEqual({ outcome: "ignored", reason: "not-ready" });
    expect(step(job, claim, 2_000).outcome).toBe("changed");
  });
  test.each([
    ["attempt", { ...holder, attempt: 2 }],
    ["node", { ...holder, node: "n2" }],
    ["boot", { ...holder, boot: "b2" }],
  ])("a completion with another %s than the current one changes nothing", (_what, ref) => {
    expect(step(running, { type: "complete", ...ref, result }, 1)).toEqual({
      outcome: "ignored",
      reason: "not-current",
    });
  });
  test("the winner's repeated completion is recognised by its hash, another output is not", () => {
    const { success } = exampleJobs;
    expect(step(success, { type: "complete", ...holder, result }, 9)).toMatchObject({
      reason: "already-done",
    });
    const other = { ...result, hash: "other" };
    expect(step(success, { type: "complete", ...holder, result: other }, 9)).toMatchObject({
      reason: "not-current",
    });
  });
  test("a completion after the lease was given up is fenced though no other attempt has begun", () => {
    const { job } = moved(
      running,
      { type: "leaseExpired", attempt: 1, countsAsLoss: true, nodesLostMax: 3 },
      20_000,
    );
    expect(step(job, { type: "complete", ...holder, result }, 20_001).outcome).toBe("ignored");
  });
  test("a refusal of an accepted attempt is ignored", () => {
    const { job } = moved(running, { type: "accepted", attempt: 1 });
    expect(step(job, { type: "accepted", attempt: 1 }, 1)).toMatchObject({
      reason: "already-done",
    });
    expect(step(job, { type: "refused", attempt: 1, reason: "" }, 1).outcome).toBe("ignored");
  });
});

describe("errors and losses", () => {
  test("an error costs an attempt and waits for the backoff, and lost nodes are counted apart", () => {
    const failed = moved(running, {
      type: "fail",
      ...holder,
      error,
      retryable: true,
      random: 1,
    }).job;
    expect(failed).toMatchObject({ state: "pending", readyAt: 2_000 });
    expect(failed.history).toMatchObject({ errors: 1, nodesLost: 0, lastError: error });
    const lost = moved(
      running,
      { type: "leaseExpired", attempt: 1, countsAsLoss: true, nodesLostMax: 3 },
      20_000,
    ).job;
    expect(lost).toMatchObject({ state: "pending", readyAt: 20_000 });
    expect(lost.history).toMatchObject({ errors: 0, nodesLost: 1 });
  });
  test("backoff doubles with each error up to its bound, half of it random", () => {
    const { spec } = running;
    const at = (errors: number, random: number) => backoffDelayMs(spec, errors, random);
    expect([at(1, 0), at(1, 1), at(2, 1), at(3, 1), at(60, 1)]).toEqual([
      500, 1_000, 2_000, 4_000, 60_000,
    ]);
  });
  test("the third lost node parks the job, and an operator's retry starts its counts anew", () => {
    const job: Job = { ...running, history: { ...running.history, nodesLost: 2, errors: 1 } };
    const parked = moved(job, { type: "nodeGone", node: "n1", boot: "b2", nodesLostMax: 3 });
    expect(parked.job).toMatchObject({ state: "failed", error: { type: "JOB_PARKED" } });
    expect(kinds(parked.effects)).toContain("settled");
    const again = moved(parked.job, { type: "retry" }).job;
    expect(again).toMatchObject({
      state: "pending",
      history: { attempt: 1, errors: 0, nodesLost: 0 },
    });
  });
  test("a lease that ran out while the scheduler was away counts against nobody", () => {
    const { job } = moved(
      running,
      { type: "leaseExpired", attempt: 1, countsAsLoss: false, nodesLostMax: 3 },
      20_000,
    );
    expect(job.history).toMatchObject({ errors: 0, nodesLost: 0 });
  });
  test("draining costs nothing, a restart of the node counts as a lost node", () => {
    const back = (cause: "drain" | "restart") =>
      moved(running, { type: "handBack", attempt: 1, node: "n1", cause, nodesLostMax: 3 }).job;
    expect(back("drain").history).toMatchObject({ errors: 0, nodesLost: 0 });
    expect(back("restart").history).toMatchObject({ errors: 0, nodesLost: 1 });
  });
  test.each([
    ["leaseExpired", 19_999, { countsAsLoss: true, nodesLostMax: 3 }],
    ["timeout", 59_999, { random: 0 }],
    ["stall", 29_999, { random: 0 }],
  ])("%s is ignored a millisecond early and kills the attempt when due", (type, early, more) => {
    const message = { type, attempt: 1, ...more } as JobMessage;
    expect(step(running, message, early)).toMatchObject({ reason: "not-due" });
    expect(kinds(moved(running, message, early + 1).effects)).toContain("halt");
  });
  test("a node that still holds a timed-out attempt hears why", () => {
    const { job } = moved(running, { type: "timeout", attempt: 1, random: 0 }, 60_000);
    expect(fenceReason(job, 1)).toBe("timeout");
    expect(fenceReason(exampleJobs.cancelled, 1)).toBe("cancelled");
    expect(fenceReason({ ...running, history: { ...running.history, attempt: 2 } }, 1)).toBe(
      "superseded",
    );
    expect(fenceReason(undefined, 1)).toBe("unknown");
  });
});

describe("progress and leases", () => {
  const renew = { type: "renew", ...holder, leaseMs: 20_000 } as const;
  test("a renewal moves the lease forward, never back, and progress never falls", () => {
    const { job } = moved(running, { ...renew, progress: 0.6, stage: "render" }, 5_000);
    expect(job).toMatchObject({ leaseUntil: 25_000, accepted: true });
    const late = moved(job, { ...renew, progress: 0.2, stage: "render" }, 4_000).job;
    expect(late).toMatchObject({
      leaseUntil: 25_000,
      history: { progress: 0.6, progressAt: 5_000 },
    });
  });
  test("a new stage counts as progress, silence does not", () => {
    const first = moved(running, { ...renew, progress: 0, stage: "probe" }, 5_000).job;
    const silent = moved(first, { ...renew, progress: 0, stage: "probe" }, 10_000).job;
    expect([first.history.progressAt, silent.history.progressAt]).toEqual([5_000, 5_000]);
  });
});

describe("cancel", () => {
  test("of a running job halts its node and settles at once", () => {
    const { job, effects } = moved(running, { type: "cancel", reason: "wrong file" });
    expect(job).toMatchObject({
      state: "cancelled",
      reason: "wrong file",
      stopping: { node: "n1", boot: "b1" },
    });
    expect(kinds(effects)).toEqual(expect.arrayContaining(["halt", "settled"]));
  });
  test("wins over everything that its attempt still says", () => {
    const { job } = moved(running, { type: "cancel", reason: "" });
    for (const { message, now = 1_000 } of exampleMessages)
      if (message.type !== "retry") expect(step(job, message, now).outcome).toBe("ignored");
  });
});

test("whatever is said in whatever order: attempts and versions only rise, one end is final", () => {
  const said = fc.record({
    example: fc.constantFrom(...exampleMessages),
    attempt: fc.integer({ min: 1, max: 4 }),
    waitMs: fc.integer({ min: 0, max: 30_000 }),
  });
  const property = fc.property(fc.array(said, { maxLength: 60 }), (messages) => {
    let job: Job = exampleJobs.pending;
    let now = 0;
    for (const { example, attempt, waitMs } of messages) {
      now += waitMs;
      const { message } = example;
      const made = step(job, "attempt" in message ? { ...message, attempt } : message, now);
      if (made.outcome === "ignored") continue;
      const next = made.job;
      expect(next.history.attempt - job.history.attempt).toBe(message.type === "claim" ? 1 : 0);
      expect(next.history.version - job.history.version).toBe(made.durable ? 1 : 0);
      if (job.state === "success") throw new Error("a success was changed");
      if (job.state === "failed" || job.state === "cancelled") expect(message.type).toBe("retry");
      const ends = next.state !== "pending" && next.state !== "running";
      expect(made.effects.filter(({ type }) => type === "settled")).toHaveLength(ends ? 1 : 0);
      job = next;
    }
  });
  fc.assert(property, { numRuns: 500, seed: 11 });
});

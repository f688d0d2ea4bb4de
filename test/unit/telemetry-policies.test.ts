import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { Histogram, Registry } from "prom-client";
import { HeldHistogram } from "../../lib/telemetry/held-histogram.ts";
import { redactText, redactValue } from "../../lib/telemetry/redact.policy.ts";
import { takeTrace } from "../../lib/telemetry/trace-budget.policy.ts";
import { parseTraceparent, traceparentText } from "../../lib/telemetry/trace-parent.policy.ts";
import { composeFinding, statusOf } from "../../services/health/readiness.policy.ts";
import type { JobMessage } from "../../services/scheduler/job.messages.ts";
import { step } from "../../services/scheduler/job.step.ts";
import type { Job } from "../../services/scheduler/job.types.ts";
import { bandOf, countsOf } from "../../services/scheduler/job-counts.policy.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

describe("traceparent", () => {
  test.each([
    ["a plain one", `00-${TRACE}-${SPAN}-01`, true],
    ["one that is not sampled", `00-${TRACE}-${SPAN}-00`, false],
    ["other flags beside sampled", `00-${TRACE}-${SPAN}-03`, true],
    ["a later version with more fields", `cc-${TRACE}-${SPAN}-01-what-comes`, true],
  ])("%s is read", (_what, text, sampled) => {
    expect(parseTraceparent(text)).toEqual({ traceId: TRACE, spanId: SPAN, sampled });
  });

  test.each([
    ["nothing", undefined],
    ["a list of two", [`00-${TRACE}-${SPAN}-01`]],
    ["upper case", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ["a trace of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["a span of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["version ff", `ff-${TRACE}-${SPAN}-01`],
    ["more fields in version 00", `00-${TRACE}-${SPAN}-01-more`],
    ["a short trace id", `00-${TRACE.slice(1)}-${SPAN}-01`],
    ["something endless", `00-${TRACE}-${SPAN}-01-${"x".repeat(10_000)}`],
  ])("%s begins a trace of its own", (_what, text) => {
    expect(parseTraceparent(text)).toBeUndefined();
  });

  test("what is written is read back, whatever the ids", () => {
    const hex = (length: number) =>
      fc
        .array(fc.constantFrom(..."0123456789abcdef"), { minLength: length, maxLength: length })
        .map((digits) => digits.join(""))
        .filter((text) => !/^0+$/.test(text));
    fc.assert(
      fc.property(hex(32), hex(16), fc.boolean(), (traceId, spanId, sampled) => {
        const parent = { traceId, spanId, sampled };
        expect(parseTraceparent(traceparentText(parent))).toEqual(parent);
      }),
    );
  });
});

describe("budget of traces", () => {
  const rate = { perSecond: 10, atOnce: 5 };
  const taken = (budget: { left: number; at: number }, now: number, tries: number) =>
    Array.from({ length: tries }, () => takeTrace(budget, now, rate)).filter(Boolean).length;

  test("gives what was saved up at once, then what time brings, and never saves more", () => {
    const budget = { left: 5, at: 0 };
    expect(taken(budget, 0, 100)).toBe(5);
    expect(taken(budget, 1_000, 100)).toBe(5);
    expect(taken(budget, 1_200, 100)).toBe(2);
    expect(taken(budget, 3_600_000, 100)).toBe(5);
  });

  test("is not filled by a clock that stands still or goes back", () => {
    const budget = { left: 0, at: 1_000 };
    expect(taken(budget, 1_000, 10)).toBe(0);
    expect(taken(budget, 0, 10)).toBe(0);
  });
});

describe("a histogram whose series are held", () => {
  test("is written down as prom-client writes its own", async () => {
    const bounds = [0.1, 1, 10];
    const values = [0, 0.1, 0.100001, 0.5, 1, 9.99, 10, 10.01, 1e9];
    const [own, theirs] = [new Registry(), new Registry()];
    const held = new HeldHistogram<"route">(own, "x_seconds", "Some time", bounds);
    const other = new Histogram({
      name: "x_seconds",
      help: "Some time",
      labelNames: ["route"],
      buckets: bounds,
      registers: [theirs],
    });
    for (const route of ["/a", '/"quoted"\\{id}']) {
      const series = held.series({ route });
      for (const value of values) {
        series.observe(value);
        other.observe({ route }, value);
      }
    }
    const lines = async (registry: Registry) => (await registry.metrics()).split("\n").sort();
    expect(await lines(own)).toEqual(await lines(theirs));
  });
});

describe("secrets in logs", () => {
  test.each([
    ["a bearer token", "failed: Authorization: Bearer abc.def-123", "abc.def-123"],
    ["a password in an address", "mongodb://user:pa55word@db:27017/x", "pa55word"],
    ["a signed link of our own", "GET /objects/b/k?expires=1&signature=AbC_d-9", "AbC_d-9"],
    ["a signed link of S3", "https://s/b/k?X-Amz-Signature=0a1b2c3d&x=1", "0a1b2c3d"],
    ["temporary credentials", "?X-Amz-Security-Token=FwoGZX&X-Amz-Date=2026", "FwoGZX"],
    ["JSON in a text", 'body {"password":"open sesame"}', "open"],
    ["an assignment", "ADMIN_PASSWORD=s3cret-value next", "s3cret-value"],
  ])("%s is hidden", (_what, text, secret) => {
    expect(redactText(text, [])).not.toContain(secret);
  });

  test("what says nothing secret stays as it is", () => {
    const text = "job 0192 (timeline) ended on node-1 after 3.2 s: https://host/a?page=2";
    expect(redactText(text, ["another-secret"])).toBe(text);
  });

  test("values are bounded in depth and width", () => {
    const deep: Record<string, unknown> = {};
    deep["self"] = deep;
    expect(JSON.stringify(redactValue(deep, []))).toContain("[deep]");
    expect(redactValue(new Array(1_000).fill(1), [])).toHaveLength(100);
  });
});

describe("state of a node from its parts", () => {
  const part = (state: "ok" | "degraded" | "down", essential: boolean) => ({ state, essential });
  test.each([
    ["all ok", [part("ok", true), part("ok", false)], "ok"],
    ["nothing to look at", [], "ok"],
    ["an essential one down", [part("ok", false), part("down", true)], "down"],
    ["another one down", [part("ok", true), part("down", false)], "degraded"],
    ["an essential one degraded", [part("degraded", true)], "degraded"],
  ] as const)("%s", (_what, parts, expected) => expect(statusOf(parts)).toBe(expected));

  test("nobody renders without a fresh node, and less where all drain", () => {
    const node = (lastSeenMs: number, draining = false) => ({ lastSeenMs, draining });
    expect(composeFinding([], 100).state).toBe("down");
    expect(composeFinding([node(101)], 100).state).toBe("down");
    expect(composeFinding([node(1, true), node(500)], 100).state).toBe("degraded");
    expect(composeFinding([node(1, true), node(100)], 100).state).toBe("ok");
  });
});

describe("numbers of a transition", () => {
  const pending: Job = {
    spec: {
      id: "j",
      kind: "noop",
      queue: "default",
      owner: "o",
      payload: {},
      priority: 50,
      createdAt: 0,
      dueAt: 1_000,
      attemptsMax: 2,
      backoffMs: 0,
      backoffMsMax: 0,
      timeoutMs: 60_000,
      stallMs: 60_000,
      requires: {},
    },
    history: { attempt: 0, errors: 0, nodesLost: 0, progress: 0, version: 1 },
    state: "pending",
    readyAt: 1_000,
  };
  const ref = { attempt: 1, node: "n", boot: "b" };
  const claim: JobMessage = { type: "claim", node: "n", boot: "b", leaseMs: 5_000 };
  const moved = (job: Job, message: JobMessage, now: number) => {
    const result = step(job, message, now);
    if (result.outcome !== "changed") throw new Error(result.reason);
    return { job: result.job, counts: countsOf(job, result.job, result.effects, now) };
  };
  const running = moved(pending, claim, 3_000).job;

  test("a claim starts an attempt, after the time since the job was due", () => {
    expect(moved(pending, claim, 3_000).counts).toEqual([{ type: "started", waitedS: 2 }]);
  });

  const error = { type: "RENDER_FAILED", message: "no" };
  const result = { hash: "h", outputs: [], info: {} };
  test.each<[string, JobMessage, number, string, string | undefined, boolean]>([
    ["success", { ...ref, type: "complete", result }, 5_000, "success", "success", false],
    [
      "an error",
      { ...ref, type: "fail", error, retryable: true, random: 0 },
      5_000,
      "error",
      undefined,
      false,
    ],
    [
      "a final error",
      { ...ref, type: "fail", error, retryable: false, random: 0 },
      5_000,
      "error",
      "failed",
      false,
    ],
    ["a cancel", { type: "cancel", reason: "" }, 5_000, "cancelled", "cancelled", false],
    ["too long", { type: "timeout", attempt: 1, random: 0 }, 63_000, "timeout", undefined, false],
    ["no progress", { type: "stall", attempt: 1, random: 0 }, 63_000, "stalled", undefined, false],
    [
      "an expired lease",
      { type: "leaseExpired", attempt: 1, countsAsLoss: true, nodesLostMax: 3 },
      8_000,
      "lease-expired",
      undefined,
      true,
    ],
    [
      "a parked job",
      { type: "leaseExpired", attempt: 1, countsAsLoss: true, nodesLostMax: 1 },
      8_000,
      "lease-expired",
      "parked",
      true,
    ],
    [
      "a restarted node",
      { type: "nodeGone", node: "n", boot: "c", nodesLostMax: 3 },
      5_000,
      "node-restarted",
      undefined,
      true,
    ],
    [
      "a draining node",
      { type: "handBack", attempt: 1, node: "n", cause: "drain", nodesLostMax: 3 },
      5_000,
      "returned",
      undefined,
      false,
    ],
  ])("%s ends the attempt as what it is", (_what, message, now, end, ended, lost) => {
    const { counts } = moved(running, message, now);
    expect(counts).toEqual([
      { type: "attempt", end, ranS: (now - 3_000) / 1_000 },
      ...(lost ? [{ type: "nodeLost" }] : []),
      ...(ended ? [{ type: "ended", as: ended }] : []),
    ]);
  });

  test("a renewal and a job of an earlier leader add nothing", () => {
    const renewed = moved(running, { ...ref, type: "renew", leaseMs: 5_000, progress: 0.5 }, 4_000);
    expect(renewed.counts).toEqual([]);
    expect(countsOf(undefined, running, [], 9_000)).toEqual([]);
    expect(countsOf(undefined, pending, [], 9_000)).toEqual([]);
  });

  test("priorities fall into bands of twenty", () => {
    expect([1, 20, 21, 50, 81, 100].map(bandOf)).toEqual([
      "1-20",
      "1-20",
      "21-40",
      "41-60",
      "81-100",
      "81-100",
    ]);
  });
});

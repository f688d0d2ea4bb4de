import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { brokenRules } from "./broken-rules.ts";
import { type Invariant, invariants } from "./checkers.ts";
import { explore } from "./explore.ts";
import { drawScenario } from "./scenario.ts";
import { shrink, sizeOf } from "./shrink.ts";
import { runScenario } from "./simulation.ts";

// Thousands of errors are made here that nobody looks at.
const { stackTraceLimit } = Error;
beforeAll(() => {
  Error.stackTraceLimit = 0;
});
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit;
});

describe("simulation of scheduler, nodes and clients", () => {
  test("2,000 scenarios with every kind of trouble break no invariant", async () => {
    const total = await explore({ seed: 100_000, runs: 2_000 });
    expect(total.found).toBeUndefined();
    for (const name of Object.keys(invariants) as Invariant[])
      expect(total.made[name]).toBeGreaterThan(total.runs / 2);
  });

  test("a seed gives the same history each time, alone or beside others", async () => {
    const histories = await Promise.all(
      [7, 7, 8].map((seed) => runScenario(drawScenario(seed), undefined, true)),
    );
    const alone = await runScenario(drawScenario(7), undefined, true);
    expect(histories[0]?.trace).toEqual(alone.trace);
    expect(histories[1]?.trace).toEqual(alone.trace);
    expect(histories[2]?.trace).not.toEqual(alone.trace);
    expect(alone.trace.length).toBeGreaterThan(20);
  });

  test("a violation is shrunk to a smaller scenario that breaks the same invariant", async () => {
    const broken = brokenRules["no-fence"];
    const { found } = await explore({ seed: 1, runs: 100, broken });
    if (!found) throw new Error("no violation to shrink");
    const { scenario, result } = await shrink(found.scenario, found.violation.invariant, {
      broken,
      triesMax: 200,
    });
    expect(sizeOf(scenario)).toBeLessThan(sizeOf(found.scenario));
    expect(result.violation?.invariant).toBe("one result");
    expect(result.trace.at(-1)).toContain("VIOLATION");
  });
});

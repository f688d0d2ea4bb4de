import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type BrokenRule, brokenRules } from "./broken-rules.ts";
import { invariants } from "./checkers.ts";
import { explore } from "./explore.ts";

const rules: [string, BrokenRule][] = Object.entries(brokenRules);

// Thousands of errors are made here that nobody looks at.
const { stackTraceLimit } = Error;
beforeAll(() => {
  Error.stackTraceLimit = 0;
});
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit;
});

describe("simulation with a broken rule", () => {
  test.each(rules)(
    "notices within 10,000 runs when a rule is broken: %s",
    async (_name, broken) => {
      // The rarest, a wait that ends between two heartbeats, is met soon after this seed.
      const { found } = await explore({
        seed: 1_000,
        runs: 10_000,
        broken,
        only: broken.invariant,
      });
      expect(found?.violation.invariant).toBe(broken.invariant);
    },
  );

  test("every invariant has a broken rule that proves its checker", () => {
    const proved = new Set(rules.map(([, { invariant }]) => invariant));
    expect([...proved].sort()).toEqual(Object.keys(invariants).sort());
  });
});

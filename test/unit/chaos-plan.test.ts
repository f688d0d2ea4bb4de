import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { faultKinds, planFaults } from "../../scripts/chaos/chaos-plan.policy.ts";
import { Random } from "../simulation/random.ts";

const kinds = fc.uniqueArray(fc.constantFrom(...faultKinds), { minLength: 1 });

describe("the faults of a chaos run", () => {
  test("one seed gives one plan; every possible kind comes, in time and in order", () => {
    fc.assert(
      fc.property(fc.nat(), fc.integer({ min: 0, max: 300 }), kinds, (seed, faults, possible) => {
        const options = { faults, overMs: 60_000, possible };
        const plan = planFaults(new Random(seed), options);
        expect(plan).toEqual(planFaults(new Random(seed), options));
        expect(plan).toHaveLength(faults);
        expect(plan.map(({ atMs }) => atMs)).toEqual(
          plan.map(({ atMs }) => atMs).sort((a, b) => a - b),
        );
        expect(plan.every(({ atMs, forMs }) => atMs <= 60_000 && forMs > 0)).toBe(true);
        const done = new Set(plan.map(({ kind }) => kind));
        expect([...done].every((kind) => possible.includes(kind))).toBe(true);
        if (faults >= possible.length) expect(done.size).toBe(possible.length);
      }),
    );
  });

  test("a machine where nothing is possible gets no faults", () => {
    expect(planFaults(new Random(1), { faults: 5, overMs: 1_000, possible: [] })).toEqual([]);
  });
});

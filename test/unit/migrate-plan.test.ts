import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { canonical, differingFields } from "../../scripts/migrate/likeness.plan.ts";
import { type Compared, isEqual, summaryOf } from "../../scripts/migrate/summary.plan.ts";

describe("what is compared of something that moved", () => {
  test("two documents are alike whatever the order of their fields, and only if they hold the same", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (doc, other) => {
        const turned = Object.fromEntries(Object.entries(doc).reverse());
        expect(canonical(turned)).toBe(canonical(doc));
        expect(canonical({ ...doc, "\0more": other })).not.toBe(canonical(doc));
      }),
    );
  });

  test("the order of a list, null and a missing element count; an undefined field does not", () => {
    expect(canonical([1, 2])).not.toBe(canonical([2, 1]));
    expect(canonical({ a: null })).not.toBe(canonical({}));
    expect(canonical({ a: undefined })).toBe(canonical({}));
  });

  test("fields that differ are named", () => {
    expect(differingFields({ a: 1, b: { c: [1] }, d: 0 }, { a: 1, b: { c: [2] }, e: 0 })).toEqual([
      "b",
      "d",
      "e",
    ]);
  });
});

describe("the summary", () => {
  const row: Compared = {
    what: "jobs",
    source: 2,
    target: 2,
    others: 1,
    sourceHash: "a".repeat(64),
    targetHash: "a".repeat(64),
    differences: [],
    differing: 0,
  };

  test("what only the target has is no difference; anything else is", () => {
    expect(isEqual(row)).toBe(true);
    for (const change of [{ target: 1 }, { targetHash: "b".repeat(64) }, { differing: 1 }])
      expect(isEqual({ ...row, ...change })).toBe(false);
  });

  test("names differences, and counts those that are too many to name", () => {
    const text = summaryOf([
      row,
      { ...row, what: "runs", differences: ["x is missing"], differing: 30 },
    ]);
    expect(text).toMatch(/^jobs +2 +2 +1 +yes +a{12}$/m);
    expect(text).toMatch(/^runs +2 +2 +1 +NO/m);
    expect(text).toMatch(/differs: x is missing\ndiffers: 29 more of runs$/);
  });
});

import { expect, test } from "@jest/globals";
import { Ordinals } from "../../services/scheduler/mongo-job-ordinals.ts";

test("numbers are settled up to the oldest that is under way", () => {
  const ordinals = new Ordinals(60_000);
  ordinals.reach(100);
  const [first, second, third] = [ordinals.take(), ordinals.take(), ordinals.take()];
  expect([first, second, third]).toEqual([101, 102, 103]);
  ordinals.settle(second);
  expect(ordinals.settled).toBe(100);
  ordinals.settle(first);
  expect(ordinals.settled).toBe(102);
  ordinals.settle(third);
  expect(ordinals.settled).toBe(103);
});

test("a number whose write may still come through holds the settled ones back, for as long as it may", () => {
  const patient = new Ordinals(60_000);
  const hasty = new Ordinals(-1);
  for (const ordinals of [patient, hasty]) {
    ordinals.lose(ordinals.take());
    ordinals.settle(ordinals.take());
  }
  expect(patient.settled).toBe(0);
  expect(hasty.settled).toBe(2);
});

test("a number that was reached elsewhere is not given again, and none is taken back", () => {
  const ordinals = new Ordinals(0);
  ordinals.reach(7);
  ordinals.reach(3);
  expect(ordinals.take()).toBe(8);
});

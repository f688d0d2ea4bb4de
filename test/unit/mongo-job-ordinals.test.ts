import { expect, test } from "@jest/globals";
import { Ordinals, WriteOrdinals } from "../../services/scheduler/mongo-job-ordinals.ts";

test("numbers are settled up to the oldest that is under way", async () => {
  const ordinals = new WriteOrdinals(60_000);
  ordinals.reach(100);
  const given: number[] = [];
  const held = [0, 1, 2].map(() => Promise.withResolvers<void>());
  const writes = held.map(({ promise }) =>
    ordinals.use((number) => {
      given.push(number);
      return promise;
    }),
  );
  expect(given).toEqual([101, 102, 103]);
  const settledAfter = async (n: number) => {
    held[n]!.resolve();
    await writes[n];
    return ordinals.settled;
  };
  expect(await settledAfter(1)).toBe(100);
  expect(await settledAfter(0)).toBe(102);
  expect(await settledAfter(2)).toBe(103);
});

test("a write that may still come through holds the settled ones back, for as long as it may", async () => {
  const patient = new WriteOrdinals(60_000);
  const hasty = new WriteOrdinals(-1);
  for (const ordinals of [patient, hasty]) {
    await expect(ordinals.use(() => Promise.reject(new Error("line broken")))).rejects.toThrow();
    await ordinals.use(async () => undefined);
  }
  expect(patient.settled).toBe(0);
  expect(hasty.settled).toBe(2);
});

test("a number that was reached elsewhere is not given again, and none is taken back", () => {
  const ordinals = new Ordinals();
  ordinals.reach(7);
  ordinals.reach(3);
  expect(ordinals.take()).toBe(8);
});

import { afterEach, beforeEach, describe, expect, jest, test } from "@jest/globals";
import { WakeTimer } from "../../services/scheduler/wake-timer.ts";

/** Asks to be woken at the times that a test sets, and notes when it was. */
class Sleeper {
  wakeAt: number | undefined;
  readonly ticks: number[] = [];
  failing = false;

  nextWakeAt() {
    return this.wakeAt;
  }
  async tick() {
    this.ticks.push(Date.now());
    this.wakeAt = undefined;
    if (this.failing) throw new Error("disk full");
  }
}

const T0 = 1_700_000_000_000;
let timer: WakeTimer;
let sleeper: Sleeper;
const errors: unknown[] = [];

beforeEach(() => {
  jest.useFakeTimers({ now: T0 });
  errors.length = 0;
  sleeper = new Sleeper();
  timer = new WakeTimer((error) => errors.push(error));
});
afterEach(() => {
  timer.stop();
  jest.useRealTimers();
});

describe("wake timer", () => {
  test("wakes once at the time that was asked for, then sleeps", async () => {
    sleeper.wakeAt = T0 + 5_000;
    timer.start(sleeper);
    await jest.advanceTimersByTimeAsync(60_000);
    expect(sleeper.ticks).toEqual([T0 + 5_000]);
    expect(jest.getTimerCount()).toBe(0);
  });
  test("an earlier time replaces a later one, many changes cost one look", async () => {
    sleeper.wakeAt = T0 + 5_000;
    timer.start(sleeper);
    await jest.advanceTimersByTimeAsync(1);
    sleeper.wakeAt = T0 + 100;
    for (let n = 0; n < 10; n++) timer.rearm();
    await jest.advanceTimersByTimeAsync(10_000);
    expect(sleeper.ticks).toEqual([T0 + 100]);
  });
  test("a tick that fails is reported and the next one still comes", async () => {
    sleeper.failing = true;
    sleeper.wakeAt = T0 + 100;
    timer.start(sleeper);
    await jest.advanceTimersByTimeAsync(200);
    expect(errors).toHaveLength(1);
    sleeper.wakeAt = T0 + 300;
    timer.rearm();
    await jest.advanceTimersByTimeAsync(200);
    expect(sleeper.ticks).toEqual([T0 + 100, T0 + 300]);
  });
  test("a time beyond what a timer can hold is slept towards in parts", async () => {
    const far = T0 + 40 * 86_400_000;
    sleeper.wakeAt = far;
    timer.start(sleeper);
    await jest.advanceTimersByTimeAsync(86_400_000);
    expect(sleeper.ticks).toEqual([]);
  });
});

import { describe, expect, test } from "@jest/globals";
import { Election, type ElectionPorts } from "../../services/scheduler/election.ts";
import {
  claimOn,
  leaderTimes,
  type Sighting,
  sighted,
} from "../../services/scheduler/leadership.policy.ts";
import { MemoryJobStore } from "../../services/scheduler/memory-job-store.ts";

const leaseMs = 6_000;
const { ownLeaseMs, pollMs } = leaderTimes(leaseMs);

describe("claim on the leadership", () => {
  const given = { holder: "me#1", leaseMs, isExclusive: false };
  const seen = (holder: string, sinceMs = 0): Sighting => ({
    leadership: { term: 3, holder, beat: 7 },
    sinceMs,
  });
  test.each([
    ["at once, when nobody has led yet", { term: 0, holder: "", beat: 0 }, "first"],
    ["at once, when the leader has resigned", { term: 3, holder: "", beat: 7 }, "resigned"],
    [
      "at once, when an answer to this very run was lost",
      { term: 3, holder: "me#1", beat: 0 },
      "own",
    ],
    [
      "not yet, when an earlier run of this node led",
      { term: 3, holder: "me#0", beat: 0 },
      undefined,
    ],
  ])("%s", (_name, leadership, claim) => {
    expect(claimOn({ leadership, sinceMs: 0 }, 0, given)).toBe(claim);
  });
  test("only when nothing has changed for a whole lease of the own clock", () => {
    expect(claimOn(seen("other#1"), leaseMs - 1, given)).toBeUndefined();
    expect(claimOn(seen("other#1"), leaseMs, given)).toBe("lapsed");
    const renewed = sighted(seen("other#1"), { term: 3, holder: "other#1", beat: 8 }, 5_000);
    expect(claimOn(renewed, leaseMs, given)).toBeUndefined();
    const same = sighted(seen("other#1"), { term: 3, holder: "other#1", beat: 7 }, 5_000);
    expect(claimOn(same, leaseMs, given)).toBe("lapsed");
  });
  test("at once, where no other process can have the store", () => {
    expect(claimOn(seen("other#1"), 0, { ...given, isExclusive: true })).toBe("alone");
  });
  test("a leader stops counting on its lease before a standby may take over, at any lease", () => {
    for (const ms of [1_000, 6_000, 60_000]) {
      const times = leaderTimes(ms);
      expect(times.ownLeaseMs).toBeLessThan(times.leaseMs);
      expect(times.renewMs * 3).toBeLessThan(times.ownLeaseMs);
    }
  });
});

/** Elections on one store, under a clock that stands still until the test moves it. */
class World {
  now = 0;
  readonly store: MemoryJobStore & { exclusive?: boolean } = new MemoryJobStore();
  readonly #timers: { at: number; run: () => void; process: Process }[] = [];

  process(name: string): Process {
    return new Process(this, name);
  }

  after(process: Process, delayMs: number, run: () => void): () => void {
    const timer = { at: this.now + delayMs, run, process };
    this.#timers.push(timer);
    return () => {
      const place = this.#timers.indexOf(timer);
      if (place >= 0) this.#timers.splice(place, 1);
    };
  }

  async pass(ms: number): Promise<void> {
    const end = this.now + ms;
    for (;;) {
      await settled();
      const [due] = this.#timers
        .filter(({ at, process }) => at <= end && !process.isFrozen)
        .sort((a, b) => a.at - b.at);
      if (!due) break;
      this.#timers.splice(this.#timers.indexOf(due), 1);
      this.now = Math.max(this.now, due.at);
      due.run();
    }
    this.now = end;
  }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

class Process {
  isFrozen = false;
  /** The next call of the store fails: before it was carried out, or after. */
  fault: "lost" | "answer-lost" | undefined;
  isStoreGone = false;
  /** How long the store fences earlier leaders off. */
  fencingMs = 0;
  meanwhile: () => Promise<unknown> = async () => undefined;
  readonly led: number[] = [];
  readonly ended: string[] = [];
  leadFails = false;
  readonly election: Election;

  constructor(world: World, name: string) {
    const guarded =
      <A extends unknown[], R>(act: (...given: A) => Promise<R>) =>
      async (...given: A): Promise<R> => {
        const { fault } = this;
        this.fault = undefined;
        if (this.isStoreGone || fault === "lost") throw new Error("out of reach");
        const result = await act(...given);
        if (fault === "answer-lost") throw new Error("no answer");
        return result;
      };
    const { store } = world;
    const ports: ElectionPorts = {
      store: {
        exclusive: store.exclusive,
        leadership: guarded(() => store.leadership()),
        takeOver: guarded(async (seen, holder) => {
          const taken = await store.takeOver(seen, holder);
          await this.meanwhile();
          world.now += this.fencingMs;
          return taken;
        }),
        renew: guarded((term) => store.renew(term)),
        resign: guarded((term) => store.resign(term)),
      },
      holder: `${name}#1`,
      nowMonotonic: () => world.now,
      after: (delayMs, run) => world.after(this, delayMs, run),
      lead: async (term) => {
        if (this.leadFails) throw new Error("cannot read");
        this.led.push(term);
      },
      stepDown: async (_term, why) => void this.ended.push(why),
      log: () => {},
    };
    this.election = new Election(ports, leaseMs);
  }
}

describe("election", () => {
  test("a take-over that lasts longer than a lease, since many jobs are fenced off, is one all the same", async () => {
    const world = new World();
    const a = world.process("a");
    a.fencingMs = 3 * leaseMs;
    await a.election.start();
    await world.pass(2 * leaseMs);
    expect([a.led, a.ended]).toEqual([[1], []]);
    expect(a.election.holdsLease(1)).toBe(true);
  });

  test("who lost the leadership while it fenced does not lead", async () => {
    const world = new World();
    const a = world.process("a");
    a.fencingMs = 3 * leaseMs;
    a.meanwhile = () => world.store.takeOver({ term: 1, holder: "a#1", beat: 0 }, "b#1");
    await a.election.start();
    expect(a.led).toEqual([]);
    expect(await world.store.leadership()).toMatchObject({ term: 2, holder: "b#1" });
  });

  test("the first of two leads, the other stands by while the lease is renewed", async () => {
    const world = new World();
    const [a, b] = [world.process("a"), world.process("b")];
    await a.election.start();
    await b.election.start();
    await world.pass(60_000);
    expect(a.election.status).toMatchObject({ role: "leader", term: 1 });
    expect(b.election.status).toMatchObject({ role: "standby", term: 1, holder: "a#1" });
    expect(b.election.status.lastRenewedMs).toBeLessThan(leaseMs);
    expect([a.led, b.led]).toEqual([[1], []]);
  });

  test("when the leader falls silent a standby leads after one lease and one look", async () => {
    const world = new World();
    const [a, b] = [world.process("a"), world.process("b")];
    await a.election.start();
    await b.election.start();
    a.isFrozen = true;
    await world.pass(leaseMs - 1);
    expect(b.led).toEqual([]);
    await world.pass(pollMs + 1);
    expect(b.led).toEqual([2]);
  });

  test("a leader that was stopped for longer than its lease knows it before it does anything", async () => {
    const world = new World();
    const a = world.process("a");
    await a.election.start();
    a.isFrozen = true;
    await world.pass(ownLeaseMs - 1);
    expect(a.election.holdsLease(1)).toBe(true);
    await world.pass(1);
    expect(a.election.holdsLease(1)).toBe(false);
    a.isFrozen = false;
    await world.pass(0);
    expect(a.ended).toHaveLength(1);
  });

  test("a store that is away for less than the lease changes nothing; longer, the leader stops by itself", async () => {
    const world = new World();
    const a = world.process("a");
    await a.election.start();
    a.isStoreGone = true;
    await world.pass(3_000);
    a.isStoreGone = false;
    await world.pass(10_000);
    expect(a.election.holdsLease(1)).toBe(true);
    a.isStoreGone = true;
    await world.pass(leaseMs);
    expect(a.election.status.role).toBe("standby");
    a.isStoreGone = false;
    await world.pass(pollMs);
    expect(a.led).toEqual([1, 2]);
  });

  test("a take-over whose answer was lost is made again at the next look", async () => {
    const world = new World();
    const a = world.process("a");
    a.fault = undefined;
    const start = a.election.start();
    a.fault = "answer-lost";
    await start;
    await world.pass(pollMs);
    expect(a.led.length).toBe(1);
    expect(await world.store.leadership()).toMatchObject({ holder: "a#1", term: a.led[0] });
  });

  test("a leader that stops resigns, and the next look of a standby finds it", async () => {
    const world = new World();
    const [a, b] = [world.process("a"), world.process("b")];
    await a.election.start();
    await b.election.start();
    await a.election.stop();
    expect(a.ended).toEqual(["stopped"]);
    await world.pass(pollMs);
    expect(b.led).toEqual([2]);
    await world.pass(60_000);
    expect(a.led).toEqual([1]);
  });

  test("a leader whose term the store refuses stands by at once, told once", async () => {
    const world = new World();
    const a = world.process("a");
    await a.election.start();
    await world.store.takeOver(await world.store.leadership(), "b#1");
    for (let n = 0; n < 2; n++) a.election.deposed(1);
    await settled();
    expect(a.ended).toHaveLength(1);
    expect(a.election.holdsLease(1)).toBe(false);
    await world.pass(leaseMs - 1);
    expect(a.led).toEqual([1]);
  });

  test("who cannot begin gives the leadership back", async () => {
    const world = new World();
    const [a, b] = [world.process("a"), world.process("b")];
    a.leadFails = true;
    await a.election.start();
    await settled();
    await settled();
    expect(await world.store.leadership()).toMatchObject({ term: 1, holder: "" });
    await b.election.start();
    expect(b.led).toEqual([2]);
  });

  test("on a store of its own a node leads at once, whoever led before, and never renews", async () => {
    const world = new World();
    world.store.exclusive = true;
    await world.store.takeOver(await world.store.leadership(), "killed#1");
    const a = world.process("a");
    await a.election.start();
    expect(a.led).toEqual([2]);
    await world.pass(3_600_000);
    expect(a.election.holdsLease(2)).toBe(true);
    expect(await world.store.leadership()).toMatchObject({ beat: 0 });
  });
});

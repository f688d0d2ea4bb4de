import type { Rates } from "./network.ts";
import { Random } from "./random.ts";
import type { StoreTraits } from "./simulated-store.ts";

/** What a client does. Jobs are named by their place in the list of submissions. */
export type Operation =
  | {
      type: "submit";
      atMs: number;
      job: number;
      owner: string;
      queue: string;
      priority: number;
      delayMs: number;
      attemptsMax: number;
      /** The same request is made this many times, by clients that know nothing of each other. */
      copies: number;
      work: Work;
    }
  | { type: "cancel" | "retry"; atMs: number; job: number }
  | { type: "pause"; atMs: number; queue: string; forMs: number };

/** How the attempts of a job go. The last entry counts for all further attempts. */
export interface Work {
  attempts: ("ok" | "error" | "fatal" | "hang" | "silent")[];
  durationMs: number;
}

export type Fault =
  | { type: "crash"; atMs: number; who: string; downMs: number }
  | { type: "freeze"; atMs: number; who: string; forMs: number }
  | { type: "stop"; atMs: number; who: string; downMs: number }
  | { type: "cut"; atMs: number; who: string; forMs: number }
  | { type: "drain"; atMs: number; who: string; graceMs: number; forMs: number }
  | { type: "store-cut"; atMs: number; who: string; forMs: number }
  | { type: "store-bad"; atMs: number; forMs: number };

/** Stands for whichever scheduler leads when a fault happens. */
export const leader = "leader";

export interface Scenario {
  seed: number;
  /** Another course of the same scenario: other delays, losses and lengths. Used when shrinking. */
  course?: number;
  /** A bridge is outside the mesh: the scheduler asks it over HTTP. */
  nodes: { name: string; slots: number; bridge?: boolean }[];
  /** How many processes of the scheduler share the store. */
  schedulers: number;
  store: StoreTraits;
  rates: Rates;
  /** Faults end here and everything is repaired; then the system must come to rest. */
  healMs: number;
  operations: Operation[];
  faults: Fault[];
  /** Urgent jobs of one owner keep coming while an unhurried one waits. */
  rush?: { everyMs: number; durationMs: number; untilMs: number };
}

const seldom = (random: Random, share: number, value: () => number) =>
  random.chance(share) ? value() : 0;

function drawRates(random: Random): Rates {
  return {
    loss: seldom(random, 0.6, () => random.next() * 0.25),
    duplicate: seldom(random, 0.6, () => random.next() * 0.3),
    late: seldom(random, 0.6, () => random.next() * 0.2),
    lateMsMax: random.int(50, 12_000),
  };
}

function drawStore(random: Random): StoreTraits {
  return {
    fencesInserts: random.chance(0.4),
    slow: seldom(random, 0.3, () => random.next() * 0.15),
    slowMsMax: random.int(50, 12_000),
    lostAnswers: seldom(random, 0.25, () => random.next() * 0.08),
  };
}

export const schedulerNames = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `scheduler${n + 1}`);

function drawSchedulerFaults(random: Random, healMs: number, schedulers: number): Fault[] {
  const faults: Fault[] = [];
  const names = schedulerNames(schedulers);
  const who = () => random.pick([leader, leader, ...names]);
  const draw = (share: number, max: number, make: (atMs: number) => Fault) => {
    if (!random.chance(share)) return;
    for (let count = random.int(1, max); count > 0; count -= 1)
      faults.push(make(random.int(0, healMs)));
  };
  draw(0.4, 2, (atMs) => ({ type: "crash", atMs, who: who(), downMs: random.int(50, 30_000) }));
  // Mostly longer than the lease, so that somebody else leads when it wakes.
  draw(0.35, 2, (atMs) => ({ type: "freeze", atMs, who: who(), forMs: random.int(500, 25_000) }));
  draw(0.2, 2, (atMs) => ({ type: "stop", atMs, who: who(), downMs: random.int(50, 20_000) }));
  draw(0.15, 2, (atMs) => ({
    type: "store-cut",
    atMs,
    who: who(),
    forMs: random.int(500, 20_000),
  }));
  draw(0.15, 1, (atMs) => ({ type: "store-bad", atMs, forMs: random.int(100, 9_000) }));
  return faults;
}

function drawWork(random: Random): Work {
  const attempts: Work["attempts"] = [];
  while (attempts.length < 3 && random.chance(0.3))
    attempts.push(random.pick(["error", "error", "error", "fatal", "hang", "silent"]));
  return { attempts: [...attempts, "ok"], durationMs: random.int(10, 15_000) };
}

function drawOperations(random: Random, healMs: number): Operation[] {
  const operations: Operation[] = [];
  const jobs = random.int(1, 7);
  for (let job = 0; job < jobs; job += 1) {
    const atMs = random.int(0, healMs * 0.8);
    operations.push({
      type: "submit",
      atMs,
      job,
      owner: random.pick(["ann", "bob"]),
      queue: random.pick(["default", "default", "slow"]),
      priority: random.pick([1, 50, 50, 100]),
      delayMs: seldom(random, 0.15, () => random.int(1, 10_000)),
      attemptsMax: random.int(1, 4),
      copies: random.chance(0.2) ? 2 : 1,
      work: drawWork(random),
    });
    if (random.chance(0.25))
      operations.push({ type: "cancel", atMs: atMs + random.int(0, 20_000), job });
    if (random.chance(0.15))
      operations.push({ type: "retry", atMs: atMs + random.int(1_000, 30_000), job });
  }
  if (random.chance(0.15))
    operations.push({
      type: "pause",
      atMs: random.int(0, healMs),
      queue: random.pick(["default", "slow"]),
      forMs: random.int(100, 20_000),
    });
  return operations;
}

function drawFaults(random: Random, healMs: number, nodes: readonly { name: string }[]): Fault[] {
  const faults: Fault[] = [];
  const names = nodes.map(({ name }) => name);
  const at = () => random.int(0, healMs);
  if (random.chance(0.5))
    for (let count = random.int(1, 3); count > 0; count -= 1)
      faults.push({
        type: "crash",
        atMs: at(),
        who: random.pick(names),
        downMs: random.int(50, 30_000),
      });
  if (random.chance(0.5))
    for (let count = random.int(1, 3); count > 0; count -= 1)
      faults.push({
        type: "cut",
        atMs: at(),
        who: random.pick([...names, ...names, leader, "client"]),
        forMs: random.int(500, 35_000),
      });
  if (random.chance(0.15))
    faults.push({
      type: "freeze",
      atMs: at(),
      who: random.pick(names),
      forMs: random.int(500, 30_000),
    });
  if (random.chance(0.15))
    faults.push({
      type: "stop",
      atMs: at(),
      who: random.pick(names),
      downMs: random.int(50, 20_000),
    });
  if (random.chance(0.2))
    faults.push({
      type: "drain",
      atMs: at(),
      who: random.pick(names),
      graceMs: random.int(0, 10_000),
      forMs: random.int(1_000, 30_000),
    });
  return faults;
}

/** One slot, short trouble, short work, and more urgent work than the slot can do. */
function drawRush(random: Random, seed: number): Scenario {
  const healMs = random.int(5_000, 15_000);
  const nodes = [{ name: "node1", slots: 1 }];
  const schedulers = random.pick([1, 2, 2, 3, 3]);
  const operations = drawOperations(random, healMs).map((operation) =>
    operation.type === "submit"
      ? { ...operation, work: { attempts: ["ok" as const], durationMs: random.int(10, 2_000) } }
      : operation,
  );
  return {
    seed,
    nodes,
    schedulers,
    store: drawStore(random),
    rates: drawRates(random),
    healMs,
    operations,
    faults: [
      ...drawFaults(random, healMs, nodes),
      ...drawSchedulerFaults(random, healMs, schedulers),
    ],
    rush: { everyMs: 900, durationMs: 1_000, untilMs: 90_000 },
  };
}

/** Everything that will happen from outside, drawn from a seed. Which kinds of trouble occur at all is drawn too. */
export function drawScenario(seed: number): Scenario {
  const random = new Random(`${seed}/scenario`);
  if (random.chance(0.06)) return drawRush(random, seed);
  const healMs = random.int(10_000, 60_000);
  const bridges = new Random(`${seed}/bridges`);
  const nodes = Array.from({ length: random.int(1, 3) }, (_, n) => ({
    name: `node${n + 1}`,
    slots: random.int(1, 2),
    bridge: bridges.chance(0.3),
  }));
  const schedulers = random.pick([1, 2, 2, 3, 3]);
  return {
    seed,
    nodes,
    schedulers,
    store: drawStore(random),
    rates: drawRates(random),
    healMs,
    operations: drawOperations(random, healMs),
    faults: [
      ...drawFaults(random, healMs, nodes),
      ...drawSchedulerFaults(random, healMs, schedulers),
    ],
  };
}

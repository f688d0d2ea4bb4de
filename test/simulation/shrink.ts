import type { BrokenRule } from "./broken-rules.ts";
import type { Invariant } from "./checkers.ts";
import { leader, type Operation, type Scenario, schedulerNames } from "./scenario.ts";
import { type RunResult, runScenario } from "./simulation.ts";

/** How much there is to read in a scenario. */
export function sizeOf(scenario: Scenario): number {
  const { operations, faults, nodes, rates, rush, schedulers, store } = scenario;
  let size = 2 * (operations.length + faults.length) + nodes.length + (rush ? 50 : 0) + schedulers;
  for (const share of [rates.loss, rates.duplicate, rates.late, store.slow, store.lostAnswers])
    if (share > 0) size += 1;
  for (const { slots, bridge } of nodes) size += slots - 1 + (bridge ? 1 : 0);
  for (const operation of operations)
    if (operation.type === "submit")
      size += operation.work.attempts.length + operation.copies + (operation.delayMs > 0 ? 1 : 0);
  return size;
}

const without = <T>(items: readonly T[], from: number, count: number): T[] => [
  ...items.slice(0, from),
  ...items.slice(from + count),
];

/** Leaves out whatever speaks of a job or a node that is not there any more. */
function consistent(scenario: Scenario): Scenario {
  const jobs = new Set(
    scenario.operations.flatMap((operation) =>
      operation.type === "submit" ? [operation.job] : [],
    ),
  );
  const parties = new Set([
    leader,
    "client",
    ...schedulerNames(scenario.schedulers),
    ...scenario.nodes.map(({ name }) => name),
  ]);
  return {
    ...scenario,
    operations: scenario.operations.filter(
      (operation) => operation.type === "pause" || jobs.has(operation.job),
    ),
    faults: scenario.faults.filter((fault) => !("who" in fault) || parties.has(fault.who)),
  };
}

/** The same request in a plainer form. */
function plainer(operation: Operation): Operation[] {
  if (operation.type !== "submit") return [];
  const { work } = operation;
  return [
    { ...operation, work: { ...work, attempts: ["ok"] } },
    { ...operation, copies: 1 },
    { ...operation, delayMs: 0 },
  ];
}

/** Smaller scenarios, boldest first. */
function* candidates(scenario: Scenario): Iterable<Scenario> {
  const { operations, faults, rates, nodes, schedulers, store } = scenario;
  if (scenario.rush) yield { ...scenario, rush: undefined };
  for (let count = operations.length; count >= 1; count = Math.floor(count / 2))
    for (let from = 0; from < operations.length; from += count)
      yield { ...scenario, operations: without(operations, from, count) };
  for (let count = faults.length; count >= 1; count = Math.floor(count / 2))
    for (let from = 0; from < faults.length; from += count)
      yield { ...scenario, faults: without(faults, from, count) };
  for (const kind of ["loss", "duplicate", "late"] as const)
    if (rates[kind] > 0) yield { ...scenario, rates: { ...rates, [kind]: 0 } };
  if (store.slow > 0) yield { ...scenario, store: { ...store, slow: 0 } };
  if (store.lostAnswers > 0) yield { ...scenario, store: { ...store, lostAnswers: 0 } };
  if (schedulers > 1) yield { ...scenario, schedulers: schedulers - 1 };
  for (const [at, node] of nodes.entries()) {
    if (nodes.length > 1) yield { ...scenario, nodes: without(nodes, at, 1) };
    if (node.bridge) {
      const inside = { ...node, bridge: false };
      yield { ...scenario, nodes: nodes.map((other) => (other === node ? inside : other)) };
    }
    if (node.slots > 1) {
      const fewer = { ...node, slots: node.slots - 1 };
      yield { ...scenario, nodes: nodes.map((other) => (other === node ? fewer : other)) };
    }
  }
  for (const operation of operations)
    for (const plain of plainer(operation))
      yield {
        ...scenario,
        operations: operations.map((other) => (other === operation ? plain : other)),
      };
}

export interface Shrunk {
  scenario: Scenario;
  /** The run of it, with its history. */
  result: RunResult;
  tries: number;
}

/**
 * Looks for a smaller scenario that breaks the same invariant: leaves things out as long as that succeeds, giving
 * each attempt a few courses, since what is left out also changes which messages are lost.
 */
export async function shrink(
  start: Scenario,
  invariant: Invariant,
  options: { broken?: BrokenRule; triesMax?: number; courses?: number } = {},
): Promise<Shrunk> {
  const { broken, triesMax = 1_500, courses = 6 } = options;
  let best = start;
  let tries = 0;
  const breaks = async (scenario: Scenario): Promise<Scenario | undefined> => {
    for (let course = 0; course < courses && tries < triesMax; course += 1) {
      tries += 1;
      const candidate = { ...scenario, course };
      const { violation } = await runScenario(candidate, broken);
      if (violation?.invariant === invariant) return candidate;
    }
    return undefined;
  };
  for (let isSmaller = true; isSmaller && tries < triesMax; ) {
    isSmaller = false;
    for (const raw of candidates(best)) {
      const candidate = consistent(raw);
      if (sizeOf(candidate) >= sizeOf(best)) continue;
      const broke = await breaks(candidate);
      if (!broke) continue;
      best = broke;
      isSmaller = true;
      break;
    }
  }
  return { scenario: best, result: await runScenario(best, broken, true), tries };
}

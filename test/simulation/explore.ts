import type { BrokenRule } from "./broken-rules.ts";
import { type Checkers, type Invariant, invariants, type Violation } from "./checkers.ts";
import { drawScenario, type Scenario } from "./scenario.ts";
import { runScenario } from "./simulation.ts";

export interface Exploration {
  runs: number;
  events: number;
  virtualMs: number;
  /** Checks made, by invariant. */
  made: Checkers["made"];
  /** The violation with the smallest seed. */
  found?: { seed: number; scenario: Scenario; violation: Violation };
}

/** Scenarios that run side by side: they share the turns of the event loop, nothing else. */
const besideEachOther = 8;

/**
 * Runs the scenarios of consecutive seeds until one breaks an invariant. The answer does not depend on how many run
 * side by side: of a group that was begun, the first violation counts.
 */
export async function explore(options: {
  seed: number;
  runs: number;
  broken?: BrokenRule;
  /** Only this invariant stops the exploration. */
  only?: Invariant;
  progress?: (runs: number) => void;
}): Promise<Exploration> {
  const { seed, runs, broken, only, progress } = options;
  const names = Object.keys(invariants) as Invariant[];
  const total: Exploration = {
    runs: 0,
    events: 0,
    virtualMs: 0,
    made: Object.fromEntries(names.map((name) => [name, 0])) as Checkers["made"],
  };
  while (total.runs < runs && !total.found) {
    const count = Math.min(besideEachOther, runs - total.runs);
    const scenarios = Array.from({ length: count }, (_, n) => drawScenario(seed + total.runs + n));
    const results = await Promise.all(scenarios.map((scenario) => runScenario(scenario, broken)));
    for (const [n, { violation, events, virtualMs, made }] of results.entries()) {
      total.runs += 1;
      total.events += events;
      total.virtualMs += virtualMs;
      for (const name of names) total.made[name] += made[name];
      if (!violation || (only && violation.invariant !== only)) continue;
      const scenario = scenarios[n] as Scenario;
      total.found = { seed: scenario.seed, scenario, violation };
      break;
    }
    progress?.(total.runs);
  }
  return total;
}

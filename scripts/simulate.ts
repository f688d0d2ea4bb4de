import { parseArgs } from "node:util";
import { type BrokenRule, brokenRules } from "../test/simulation/broken-rules.ts";
import { type Invariant, invariants } from "../test/simulation/checkers.ts";
import { type Exploration, explore } from "../test/simulation/explore.ts";
import { drawScenario, type Scenario } from "../test/simulation/scenario.ts";
import { shrink } from "../test/simulation/shrink.ts";
import { runScenario } from "../test/simulation/simulation.ts";

const rules: Record<string, BrokenRule> = brokenRules;
const ruleList = Object.entries(rules)
  .map(([name, { about, invariant }]) => `  ${name.padEnd(20)} ${about} (breaks: ${invariant})`)
  .join("\n");
const HELP = `Usage: npm run simulate -- [--seed N] [--runs M] [--break RULE] [--trace]

Runs the real scheduler and the real compose nodes under a virtual clock, with crashes, cuts and lost,
late, doubled and overtaking messages, and checks what must always hold.

  --seed N      first seed, default 1; a seed gives the same run each time
  --runs M      number of runs, default 1000
  --break RULE  break one rule on purpose; the status is 0 when that is noticed
  --trace       print the history of the run with the first seed
  --help        this text

Rules that can be broken:
${ruleList}

Status: 0 all is well, 1 an invariant was broken, 2 wrong usage.
`;

class UsageError extends Error {}

const number = (name: string, text: string): number => {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0)
    throw new UsageError(`--${name}: ${text} is not a whole number from 0`);
  return value;
};

function readArguments() {
  let values: { seed: string; runs: string; break?: string; trace: boolean; help: boolean };
  try {
    ({ values } = parseArgs({
      options: {
        seed: { type: "string", default: "1" },
        runs: { type: "string", default: "1000" },
        break: { type: "string" },
        trace: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    }));
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
  const broken = values.break === undefined ? undefined : rules[values.break];
  if (values.break !== undefined && !broken)
    throw new UsageError(
      `--break: no rule ${values.break}; known: ${Object.keys(rules).join(", ")}`,
    );
  return {
    ...values,
    seed: number("seed", values.seed),
    runs: number("runs", values.runs),
    rule: values.break,
    broken,
  };
}

const count = (value: number) => Math.round(value).toLocaleString("en");

function summary(total: Exploration, seconds: number): string {
  const checks = (Object.entries(invariants) as [Invariant, string][])
    .map(
      ([name, about]) => `  ${name.padEnd(14)} ${count(total.made[name]).padStart(12)}  ${about}`,
    )
    .join("\n");
  const hours = total.virtualMs / 3_600_000;
  return [
    `Invariants checked (number of checks):\n${checks}`,
    `${count(total.runs)} runs, ${count(total.events)} events, ${hours.toFixed(1)} h of virtual time in ${seconds.toFixed(1)} s: ${count(total.runs / seconds)} scenarios/s`,
  ].join("\n");
}

function describe(scenario: Scenario): string {
  const { nodes, schedulers, store, rates, operations, faults, rush, healMs } = scenario;
  const percent = (share: number) => `${Math.round(share * 100)} %`;
  return [
    `  nodes: ${nodes.map(({ name, slots }) => `${name} (${slots})`).join(", ")}; repaired at ${healMs} ms`,
    `  schedulers: ${schedulers}; the store ${store.fencesInserts ? "refuses" : "may take"} late insertions, ${percent(store.slow)} of its writes take up to ${store.slowMsMax} ms, ${percent(store.lostAnswers)} of its answers are lost`,
    `  messages lost ${percent(rates.loss)}, doubled ${percent(rates.duplicate)}, late ${percent(rates.late)} by up to ${rates.lateMsMax} ms`,
    ...[...operations, ...faults]
      .sort((a, b) => a.atMs - b.atMs)
      .map((event) => `  ${JSON.stringify(event)}`),
    ...(rush ? [`  ${JSON.stringify({ rush })}`] : []),
  ].join("\n");
}

async function report(
  found: NonNullable<Exploration["found"]>,
  broken: BrokenRule | undefined,
  rule: string | undefined,
): Promise<void> {
  const { seed, violation, scenario } = found;
  console.log(`\nVIOLATION of "${violation.invariant}" with seed ${seed}: ${violation.message}`);
  console.log(
    `Again: npm run simulate -- --seed ${seed} --runs 1${rule ? ` --break ${rule}` : ""} --trace`,
  );
  const {
    scenario: smallest,
    result,
    tries,
  } = await shrink(scenario, violation.invariant, { broken });
  console.log(
    `\nShortest history found in ${tries} tries (${scenario.operations.length} -> ${smallest.operations.length} operations, ${scenario.faults.length} -> ${smallest.faults.length} faults):`,
  );
  console.log(`${describe(smallest)}\n\n${result.trace.join("\n")}`);
}

async function main(): Promise<number> {
  const { seed, runs, broken, rule, trace, help } = readArguments();
  if (help) {
    console.log(HELP);
    return 0;
  }
  // Errors are part of the game here; nobody reads where they came from.
  Error.stackTraceLimit = 0;
  if (trace) {
    const scenario = drawScenario(seed);
    const { trace: lines } = await runScenario(scenario, broken, true);
    console.log(`${describe(scenario)}\n\n${lines.join("\n")}\n`);
  }
  const startedAt = performance.now();
  const total = await explore({ seed, runs, broken });
  console.log(summary(total, (performance.now() - startedAt) / 1000));
  if (total.found) await report(total.found, broken, rule);
  else console.log("No violation.");
  return (total.found === undefined) === (broken === undefined) ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\nnpm run simulate -- --help explains the options.`);
  process.exitCode = 2;
}

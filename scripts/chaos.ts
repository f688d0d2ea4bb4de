import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type FaultKind, faultKinds } from "./chaos/chaos-plan.policy.ts";
import { broken, chaosReport } from "./chaos/chaos-report.ts";
import { chaosRun } from "./chaos/chaos-run.ts";

const HELP = `Usage: npm run chaos [-- OPTIONS]      (the same: npm run cluster -- --chaos)

Starts a cluster on this machine, submits jobs, kills, freezes, cuts and restarts its parts, repairs everything and
reports what became of every job. Exits 1 when a job was lost or done twice, or something was left behind. With root on
Linux each compose node has a network namespace of its own, whose line is cut, and one has a small disk that is filled;
where libfaketime is installed the clocks of two nodes jump by an hour.

  --seed N       which faults and jobs (1)
  --faults N     how many (40)
  --jobs N       how many (400)
  --seconds N    spread over this time (180)
  --only KIND    this kind of fault only; may be repeated
  --report FILE  write the report there too
  --dir DIR      where logs and data go; kept afterwards (default: a temporary directory, kept when something is wrong)
  --help

Kinds of fault: ${faultKinds.join(", ")}
`;

function whole(name: string, text: string | undefined, preset: number, max: number): number {
  const value = text === undefined ? preset : Number(text);
  if (!Number.isInteger(value) || value < 0 || value > max)
    throw new TypeError(`--${name} must be a whole number from 0 to ${max}, not ${text}`);
  return value;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: "string" },
      faults: { type: "string" },
      jobs: { type: "string" },
      seconds: { type: "string" },
      only: { type: "string", multiple: true },
      report: { type: "string" },
      dir: { type: "string" },
      chaos: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const only = values.only as FaultKind[] | undefined;
  const unknown = only?.find((kind) => !faultKinds.includes(kind));
  if (unknown) throw new TypeError(`--only ${unknown}: known are ${faultKinds.join(", ")}`);
  const [seed, faults, jobs, overS] = [
    whole("seed", values.seed, 1, 2 ** 31),
    whole("faults", values.faults, 40, 10_000),
    whole("jobs", values.jobs, 400, 100_000),
    whole("seconds", values.seconds, 180, 7_200),
  ];
  const own = values.dir ? undefined : await mkdtemp(join(tmpdir(), "reelmesh-chaos-"));
  const dir = values.dir ?? (own as string);
  const startedAt = performance.now();
  const result = await chaosRun({
    seed,
    faults,
    jobs,
    overMs: overS * 1_000,
    dir,
    only,
    size: { gateway: 2, platform: 2, scheduler: 2, compose: 3 },
    log: (text) =>
      console.log(`[${((performance.now() - startedAt) / 1000).toFixed(0).padStart(4)} s] ${text}`),
  });
  const command = `npm run chaos -- --seed ${seed} --faults ${faults} --jobs ${jobs} --seconds ${overS}`;
  const report = chaosReport(result, command);
  console.log(`\n${report}`);
  if (values.report) await writeFile(values.report, report);
  const wrong = broken(result);
  if (wrong > 0) console.log(`Something is wrong; data and logs: ${dir}`);
  else if (own) await rm(own, { recursive: true, force: true });
  return wrong > 0 ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof TypeError ? `reelmesh: ${error.message}` : error);
  process.exitCode = 1;
}

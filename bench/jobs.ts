// Durable no-op jobs through the product, beside BullMQ on a Redis of its own, in one run on one machine.
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { agendaContestant } from "./jobs-agenda.ts";
import { bullmqContestant } from "./jobs-bullmq.ts";
import { type Contestant, fsyncMs, type Measured, measure, median, round } from "./jobs-measure.ts";
import { productContestant, schedulerContestant } from "./jobs-product.ts";

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "3000" },
    singles: { type: "string", default: "200" },
    runs: { type: "string", default: "3" },
    report: { type: "string", default: "bench/reports/jobs" },
  },
});
const load = {
  jobs: Number(values.jobs),
  singles: Number(values.singles),
  slots: 64,
  clients: 256,
};
const runs = Number(values.runs);

const contestants: Contestant[] = [
  productContestant,
  schedulerContestant,
  bullmqContestant("always"),
  bullmqContestant("everysec"),
  agendaContestant(process.env["MONGO_URL"]),
];

const commandText = (command: string, args: string[]) => {
  try {
    return execFileSync(command, args, { encoding: "utf8" }).trim();
  } catch {
    return "unknown";
  }
};

interface Row {
  name: string;
  durability: string;
  acceptedPerS: { median: number; min: number; max: number };
  completedPerS: { median: number; min: number; max: number };
  startP50Ms: number;
  startP99Ms: number;
}

function rowOf({ name, durability }: Contestant, measured: readonly Measured[]): Row {
  const spread = (pick: (m: Measured) => number) => {
    const all = measured.map(pick);
    return {
      median: round(median(all)),
      min: round(Math.min(...all)),
      max: round(Math.max(...all)),
    };
  };
  return {
    name,
    durability,
    acceptedPerS: spread((m) => m.acceptedPerS),
    completedPerS: spread((m) => m.completedPerS),
    startP50Ms: round(median(measured.map((m) => m.startP50Ms)), 2),
    startP99Ms: round(median(measured.map((m) => m.startP99Ms)), 2),
  };
}

/** Every contestant once a round, so that a busy minute of the machine hits all of them. */
async function race(directory: string) {
  const measured = new Map<string, Measured[]>();
  const skipped: string[] = [];
  for (let run = 0; run < runs; run++)
    for (const contestant of contestants) {
      const dataDir = await mkdtemp(join(directory, "run-"));
      const started = await contestant.start(dataDir, load);
      if (typeof started === "string") {
        if (run === 0) skipped.push(`${contestant.name}: ${started}`);
        continue;
      }
      try {
        const result = await measure(started, load);
        measured.set(contestant.name, [...(measured.get(contestant.name) ?? []), result]);
        console.log(`run ${run + 1}  ${contestant.name.padEnd(34)} ${JSON.stringify(result)}`);
      } finally {
        await started.stop();
        await rm(dataDir, { recursive: true, force: true });
      }
    }
  const rows = contestants
    .filter(({ name }) => measured.has(name))
    .map((contestant) => rowOf(contestant, measured.get(contestant.name)!));
  return { rows, skipped };
}

/** Each row of ours against each of the others. */
function ratios(rows: readonly Row[]) {
  const isOwn = ({ name }: Row) => name.startsWith(productContestant.name);
  const others = rows.filter((row) => !isOwn(row));
  return rows.filter(isOwn).flatMap((own) =>
    others.map((row) => ({
      of: own.name,
      against: row.name,
      accepted: round(own.acceptedPerS.median / row.acceptedPerS.median, 2),
      completed: round(own.completedPerS.median / row.completedPerS.median, 2),
      startP99: round(own.startP99Ms / row.startP99Ms, 2),
    })),
  );
}

const directory = await mkdtemp(join(tmpdir(), "reelmesh-bench-"));
try {
  const fsync = await fsyncMs(directory);
  const loadBefore = round(loadavg()[0] ?? 0, 1);
  const { rows, skipped } = await race(directory);
  const report = {
    question:
      "How many durable no-op jobs are accepted and completed a second, and how soon does one start on an idle machine?",
    run: `npm run bench:jobs -- --jobs ${load.jobs} --singles ${load.singles} --runs ${runs}`,
    machine: {
      cpu: `${cpus()[0]?.model ?? "unknown"} x ${cpus().length}`,
      node: process.version,
      redis: commandText("redis-server", ["--version"]).match(/v=\S+/)?.[0] ?? "absent",
      fsyncMedianMs: fsync,
      loadAverageBefore: loadBefore,
      commit: commandText("git", ["rev-parse", "--short", "HEAD"]),
      date: new Date().toISOString().slice(0, 10),
    },
    load: { ...load, runs },
    rows: "reelmesh is the product: its node journals each attempt with fsync. The node without journal does as little as BullMQ's worker: that row compares the schedulers alone.",
    how: "Jobs are submitted one by one with so many calls under way at a time; a no-op worker with so many slots runs in the same process. Start is measured for single jobs, one after another, from the call to the worker's function.",
    results: rows,
    ratios: ratios(rows),
    skipped,
    notMeasured: [
      "several processes or machines",
      "a queue of more than the jobs of one run",
      "a machine that does nothing else: the load average says how busy it was",
    ],
  };
  const table = [
    "| | durable by | accepted/s | completed/s | start p50 ms | start p99 ms |",
    "|---|---|---|---|---|---|",
    ...rows.map(
      (row) =>
        `| ${row.name} | ${row.durability} | ${row.acceptedPerS.median} | ${row.completedPerS.median} | ${row.startP50Ms} | ${row.startP99Ms} |`,
    ),
  ];
  const against = report.ratios.map(
    (ratio) =>
      `- ${ratio.of} against ${ratio.against}: accepted x ${ratio.accepted}, completed x ${ratio.completed}, start p99 x ${ratio.startP99} (smaller is better)`,
  );
  const text = [
    "# Jobs a second",
    "",
    report.question,
    "",
    ...table,
    "",
    "Ratios:",
    ...against,
    ...skipped.map((sentence) => `- skipped: ${sentence}`),
    "",
    report.rows,
    `${report.how} ${load.jobs} jobs, ${load.clients} calls, ${load.slots} slots, ${runs} runs, medians.`,
    `${report.machine.cpu}, Node ${report.machine.node}, Redis ${report.machine.redis}, one write with fsync ${fsync} ms (median), load average before the run ${loadBefore}, commit ${report.machine.commit}, ${report.machine.date}.`,
    `Not measured: ${report.notMeasured.join("; ")}.`,
    "",
  ].join("\n");
  await mkdir("bench/reports", { recursive: true });
  await writeFile(`${values.report}.json`, `${JSON.stringify(report, null, 2)}\n`);
  await writeFile(`${values.report}.md`, text);
  console.log(`\n${text}`);
} finally {
  await rm(directory, { recursive: true, force: true });
}

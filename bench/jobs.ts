// Durable no-op jobs through the product, beside BullMQ on a Redis of its own and Agenda, in one run on one machine.
// npm run bench:jobs [-- --cluster]: as one process on SQLite, or as processes over NATS on a store of MongoDB's protocol.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startServers } from "../scripts/servers/start-servers.ts";
import { agendaContestant } from "./jobs-agenda.ts";
import { bullmqContestant } from "./jobs-bullmq.ts";
import { type ClusterServers, clusterContestant, wholeClusterContestant } from "./jobs-cluster.ts";
import {
  type Contestant,
  fsyncMs,
  type Measured,
  measure,
  median,
  pacedLatencies,
  round,
} from "./jobs-measure.ts";
import { productContestant, schedulerContestant } from "./jobs-product.ts";
import { commandText, commit, processor } from "./machine.ts";

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "3000" },
    singles: { type: "string", default: "200" },
    runs: { type: "string", default: "3" },
    cluster: { type: "boolean", default: false },
    report: { type: "string" },
  },
});
const reportFile = values.report ?? `bench/reports/${values.cluster ? "jobs-cluster" : "jobs"}`;
const servers = values.cluster ? await startServers({ only: ["nats", "mongo"] }) : undefined;
const addresses = servers?.env as ClusterServers | undefined;
const load = {
  jobs: Number(values.jobs),
  singles: Number(values.singles),
  slots: 64,
  clients: 256,
};
const runs = Number(values.runs);

const contestants: Contestant[] = [
  ...(addresses
    ? [wholeClusterContestant(addresses), clusterContestant(addresses)]
    : [productContestant, schedulerContestant]),
  bullmqContestant("always"),
  bullmqContestant("everysec"),
  agendaContestant(addresses?.MONGO_URL ?? process.env["MONGO_URL"]),
];

/** The pace at which the time from submit to start is asked for. */
const pace = { perS: 100, seconds: 10 };

/** Of those whose starts can be told apart: how soon a job starts while others come evenly. */
async function pacedRows(directory: string) {
  const rows: { name: string; p50Ms: number; p99Ms: number; maxMs: number }[] = [];
  for (const contestant of contestants.filter(({ name }) => name.includes("without journal"))) {
    const dataDir = await mkdtemp(join(directory, "paced-"));
    const started = await contestant.start(dataDir, load);
    if (typeof started === "string") continue;
    try {
      await pacedLatencies(started, { ...pace, seconds: 2 });
      rows.push({ name: contestant.name, ...(await pacedLatencies(started, pace)) });
    } finally {
      await started.stop();
    }
  }
  return rows;
}

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
  const isOwn = ({ name }: Row) => name.startsWith("reelmesh");
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
  const paced = await pacedRows(directory);
  const report = {
    question:
      "How many durable no-op jobs are accepted and completed a second, and how soon does one start on an idle machine?",
    run: `npm run bench:jobs --${values.cluster ? " --cluster" : ""} --jobs ${load.jobs} --singles ${load.singles} --runs ${runs}`,
    machine: {
      cpu: processor(),
      node: process.version,
      redis: commandText("redis-server", ["--version"]).match(/v=\S+/)?.[0] ?? "absent",
      fsyncMedianMs: fsync,
      loadAverageBefore: loadBefore,
      commit: commit(),
      date: new Date().toISOString().slice(0, 10),
    },
    load: { ...load, runs },
    rows: "The product's own node journals each attempt with fsync. The node without journal does as little as the other workers: that row compares the schedulers alone.",
    how: values.cluster
      ? "Jobs are submitted one by one with so many calls under way at a time. The cluster's scheduler and compose nodes are processes of their own over NATS; the others' workers, and the node without journal, run in the process that submits. Start is measured for single jobs, one after another, from the call to the worker's function, where that runs in this process."
      : "Jobs are submitted one by one with so many calls under way at a time; a no-op worker with so many slots runs in the same process. Start is measured for single jobs, one after another, from the call to the worker's function.",
    paced: { ...pace, rows: paced },
    results: rows,
    ratios: ratios(rows),
    skipped,
    notMeasured: [
      values.cluster ? "several machines" : "several processes or machines (see --cluster)",
      "a queue of more than the jobs of one run",
      "a machine that does nothing else: the load average says how busy it was",
    ],
  };
  const table = [
    "| | durable by | accepted/s | completed/s | start p50 ms | start p99 ms |",
    "|---|---|---|---|---|---|",
    ...rows.map(
      (row) =>
        `| ${row.name} | ${row.durability} | ${row.acceptedPerS.median} | ${row.completedPerS.median} | ${row.startP50Ms || "-"} | ${row.startP99Ms || "-"} |`,
    ),
  ];
  const against = report.ratios.map(
    (ratio) =>
      `- ${ratio.of} against ${ratio.against}: accepted x ${ratio.accepted}, completed x ${ratio.completed}${Number.isNaN(ratio.startP99) ? "" : `, start p99 x ${ratio.startP99} (smaller is better)`}`,
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
    "",
    `From submit to start at ${pace.perS} jobs a second for ${pace.seconds} s:`,
    ...paced.map(
      ({ name, p50Ms, p99Ms, maxMs }) =>
        `- ${name}: p50 ${p50Ms} ms, p99 ${p99Ms} ms, longest ${maxMs} ms`,
    ),
    "",
    ...skipped.map((sentence) => `- skipped: ${sentence}`),
    "",
    report.rows,
    `${report.how} ${load.jobs} jobs, ${load.clients} calls, ${load.slots} slots, ${runs} runs, medians.`,
    `${report.machine.cpu}, Node ${report.machine.node}, Redis ${report.machine.redis}${servers ? `, MongoDB wire protocol by ${servers.get("mongo").parts.join(" over ")}` : ""}, one write with fsync ${fsync} ms (median), load average before the run ${loadBefore}, commit ${report.machine.commit}, ${report.machine.date}.`,
    `Not measured: ${report.notMeasured.join("; ")}.`,
    "",
  ].join("\n");
  await mkdir("bench/reports", { recursive: true });
  await writeFile(`${reportFile}.json`, `${JSON.stringify(report, null, 2)}\n`);
  await writeFile(`${reportFile}.md`, text);
  console.log(`\n${text}`);
} finally {
  await servers?.stop();
  await rm(directory, { recursive: true, force: true });
}

// What the job store's calls cost with a thousand and with a million stored jobs, on each adapter.
// npm run bench:growth [-- --sizes 1000,10000 --stores sqlite,mongo]; MONGO_URL names the server of the latter
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import mongoose from "mongoose";
import type { JobStore } from "../services/scheduler/job-store.ts";
import { MongoJobStore } from "../services/scheduler/mongo-job-store.ts";
import { SqliteJobStore } from "../services/scheduler/sqlite-job-store.ts";
import { ACTIVE, type Costs, costNames, costsOf, GrowingStore } from "./growth-measure.ts";
import { round } from "./jobs-measure.ts";
import { machineText } from "./machine.ts";

const { values } = parseArgs({
  options: {
    sizes: { type: "string", default: "1000,10000,100000,1000000" },
    stores: { type: "string", default: "sqlite,mongo" },
    report: { type: "string", default: "bench/reports/growth" },
    /** A size that would take longer than this to fill is left out. */
    fillS: { type: "string", default: "300" },
  },
});
const sizes = values.sizes.split(",").map(Number);

interface Place {
  name: string;
  open(): Promise<JobStore>;
  /** What the same writes cost in another way, in a sentence. */
  compared?(growing: GrowingStore): Promise<string>;
  remove(): Promise<void>;
}

async function sqlitePlace(): Promise<Place> {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-growth-"));
  return {
    name: "SQLite",
    open: () => SqliteJobStore.open(join(dir, "jobs.sqlite")),
    remove: () => rm(dir, { recursive: true }),
  };
}

async function mongoPlace(): Promise<Place | string> {
  const given = process.env["MONGO_URL"];
  if (!given) return "MongoDB: MONGO_URL names no server";
  const url = new URL(given);
  url.pathname = `/growth-${process.pid}`;
  const withDatabase = async <T>(run: (db: mongoose.mongo.Db) => Promise<T>): Promise<T> => {
    const client = await mongoose.mongo.MongoClient.connect(url.href);
    return run(client.db()).finally(() => client.close());
  };
  const { version, ferretdb } = (await withDatabase((db) => db.command({ buildInfo: 1 }))) as {
    version: string;
    ferretdb?: { version: string };
  };
  return {
    name: ferretdb ? `FerretDB ${ferretdb.version}` : `MongoDB ${version}`,
    open: () => MongoJobStore.open(url.href),
    compared: () => withDatabase(singleCommands),
    remove: async () => void (await withDatabase((db) => db.dropDatabase())),
  };
}

/** A command for each job, as a store without groups would send them, over 16 connections. */
async function singleCommands(db: mongoose.mongo.Db): Promise<string> {
  const jobs = db.collection<{ _id: string; version: number; by: string }>("jobs");
  const found = await jobs.find({ active: { $exists: true } }).toArray();
  let at = 0;
  const client = async () => {
    for (let job = found[at++]; job; job = found[at++])
      await jobs.findOneAndUpdate(
        { _id: job._id, version: job.version },
        { $set: { by: `${job.by}+` } },
        { projection: { _id: 1 } },
      );
  };
  const from = performance.now();
  await Promise.all(Array.from({ length: 16 }, client));
  const perS = round(found.length / ((performance.now() - from) / 1_000));
  return `One findOneAndUpdate a change, 16 at a time, instead of groups: ${perS} a second.`;
}

interface Row {
  jobs: number;
  fillS: number;
  costs: Costs;
}

interface Growth {
  store: string;
  rows: Row[];
  remarks: string[];
}

async function grow(place: Place): Promise<Growth> {
  const rows: Row[] = [];
  const remarks: string[] = [];
  let growing = await GrowingStore.lead(await place.open());
  const reopen = async () => {
    await growing.store.close();
    return place.open();
  };
  try {
    for (const size of sizes) {
      const last = rows.at(-1);
      const expectedS = last ? (size / last.jobs) * last.fillS : 0;
      if (expectedS > Number(values.fillS)) {
        remarks.push(
          `${size.toLocaleString("en")} jobs were left out: filling would have taken about ${round(expectedS)} s.`,
        );
        break;
      }
      const from = performance.now();
      await growing.growTo(size);
      const fillS = round((performance.now() - from) / 1_000, 1);
      const measured = await costsOf(growing, reopen);
      growing = measured.growing;
      rows.push({ jobs: size, fillS, costs: measured.costs });
      console.log(`${place.name} ${size}: filled in ${fillS} s, ${JSON.stringify(measured.costs)}`);
    }
    if (place.compared) remarks.push(await place.compared(growing));
  } finally {
    await growing.store.close();
    await place.remove();
  }
  return { store: place.name, rows, remarks };
}

const labels: Record<keyof Costs, string> = {
  submitMs: "submit one, ms",
  claimMs: "claim one, ms",
  endMs: "end one, ms",
  submitPerS: "submit together, a second",
  claimPerS: "claim together, a second",
  endPerS: "end together, a second",
  getMs: "get, ms",
  byKeyMs: "find by idempotency key, ms",
  pageMs: "newest page, ms",
  pageOfStateMs: "newest page of a state, ms",
  pageOfRareStateMs: "newest page of a rare state (1 in 200), ms",
  pageOfOwnerMs: "newest page of an owner, ms",
  pageFarBackMs: "page from half way back, ms",
  countsMs: "counts, ms",
  activeMs: "all active, ms",
  openMs: "open, ms",
  takeOverMs: "take over, ms",
};

/** Each cost against that at the first size; above 1 is worse, also for throughputs. */
const ratio = (name: keyof Costs, first: Costs, last: Costs) =>
  round(name.endsWith("PerS") ? first[name] / last[name] : last[name] / first[name], 2);

function table({ rows, remarks }: Growth): string[] {
  const [first] = rows as [Row];
  const heads = rows.map(({ jobs }) => jobs.toLocaleString("en"));
  return [
    `| | ${heads.join(" | ")} | ratios to ${heads[0]} |`,
    `|---|${rows.map(() => "---|").join("")}---|`,
    ...costNames.map((name) => {
      const ratios = rows.slice(1).map(({ costs }) => ratio(name, first.costs, costs));
      return `| ${labels[name]} | ${rows.map(({ costs }) => costs[name]).join(" | ")} | ${ratios.join(", ")} |`;
    }),
    "",
    `Filled through the store itself, ${rows.map(({ jobs, fillS }) => `to ${jobs.toLocaleString("en")} in ${fillS} s`).join(", ")}.`,
    ...remarks,
  ];
}

async function main() {
  const asked = values.stores.split(",");
  const places = [
    ...(asked.includes("sqlite") ? [await sqlitePlace()] : []),
    ...(asked.includes("mongo") ? [await mongoPlace()] : []),
  ];
  const machine = machineText();
  const results: Growth[] = [];
  const skipped: string[] = [];
  for (const place of places)
    if (typeof place === "string") skipped.push(place);
    else results.push(await grow(place));
  const report = {
    question: "What do the job store's calls cost when the past grows?",
    run: `npm run bench:growth -- --sizes ${values.sizes}`,
    machine,
    how: `Ended jobs are added through the store; ${ACTIVE} wait at every size. Single calls one after another: a quarter of them was faster. Together: 1,000 at once, the best of three groups. Client, database and whatever else the machine did share it. Of the rare state and the owner there is less than a page (50) at 1,000 jobs: their first column is not a whole page.`,
    results,
    skipped,
    notMeasured: ["many readers at once", "a replica set", "a network between client and database"],
  };
  const text = [
    "# Job store: cost by number of stored jobs",
    "",
    `${report.question} Run \`${report.run}\`. ${report.how}`,
    "",
    machine,
    "",
    ...results.flatMap((growth) => [`## ${growth.store}`, "", ...table(growth), ""]),
    ...skipped.map((sentence) => `Skipped: ${sentence}.`),
    `Not measured: ${report.notMeasured.join("; ")}.`,
    "",
  ].join("\n");
  console.log(`\n${text}`);
  await mkdir("bench/reports", { recursive: true });
  await writeFile(`${values.report}.json`, `${JSON.stringify(report, null, 2)}\n`);
  await writeFile(`${values.report}.md`, text);
}

await main();

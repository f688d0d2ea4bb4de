// Requests a second through the gateway, beside plain moleculer-web and Fastify, in one run on one machine.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import type { LoadOrder, LoadResult } from "./gateway-load.ts";
import { type ContestantName, contestantNames } from "./gateway-serve.ts";
import { median, round } from "./jobs-measure.ts";
import { commit, processor } from "./machine.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "3" },
    connections: { type: "string", default: "32" },
    only: { type: "string", multiple: true },
    profile: { type: "string" },
    report: { type: "string", default: "bench/reports/gateway" },
  },
});
const rounds = Number(values.rounds);
const connections = Number(values.connections);
const TOKEN = "token-of-the-benchmark";

const head = (line: string, more: string[] = []) =>
  [`${line} HTTP/1.1`, "Host: 127.0.0.1", ...more, "", ""].join("\r\n");
const body = JSON.stringify({
  name: "A short video about the sea",
  tags: ["sea", "morning", "calm"],
  width: 1080,
  height: 1920,
});
const cases = [
  { name: "cached GET", request: head("GET /bench/items/a1") },
  {
    name: "authenticated GET",
    request: head("GET /bench/guarded/a1", [`Authorization: Bearer ${TOKEN}`]),
  },
  {
    name: "POST",
    request:
      head("POST /bench/items", [
        "Content-Type: application/json",
        `Content-Length: ${Buffer.byteLength(body)}`,
      ]) + body,
  },
] as const;

interface Sample {
  perS: number;
  /** Processor time of the serving thread for one request, in a quiet moment of the run. */
  cpuUs: number;
  p99Ms: number;
}

const file = (name: string) => new URL(name, import.meta.url);
const ask = async <T>(child: ChildProcess, message: unknown): Promise<T> => {
  const answered = once(child, "message");
  child.send(message as object);
  return (await answered)[0] as T;
};

/** A collector that takes everything and looks at nothing, in this process: not in that of the contestant. */
async function openSink() {
  let bytes = 0;
  const server = createServer((req, res) => {
    req.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
    });
    req.on("end", () => res.end("{}"));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, bytes: () => bytes, close: () => server.close() };
}

async function startContestant(name: ContestantName, sink: string) {
  const profile = values.profile ? ["--cpu-prof", `--cpu-prof-dir=${values.profile}`] : [];
  const child = fork(file("./gateway-serve.ts"), [], {
    env: { ...process.env, BENCH_CONTESTANT: name, BENCH_SINK: sink, BENCH_TOKEN: TOKEN },
    execArgv: profile,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  return { child, port };
}

async function measure(child: ChildProcess, port: number, request: string): Promise<Sample> {
  const load = fork(file("./gateway-load.ts"), [], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const order: LoadOrder = {
    port,
    request,
    connections,
    warmMs: 2_000,
    forMs: Number(values.seconds) * 1000,
  };
  load.send(order);
  await once(load, "message");
  await ask(child, "mark");
  const [result] = (await once(load, "message")) as [LoadResult];
  const { cpuUs } = await ask<{ cpuUs: number }>(child, "read");
  load.kill();
  if (Object.keys(result.odd).length > 0 || result.requests === 0)
    throw new Error(`not every answer was 200: ${JSON.stringify(result.odd)} ${result.sample}`);
  if (!result.sample.includes('"returnCode":0') || !result.sample.includes("about the sea"))
    throw new Error(`another answer: ${result.sample}`);
  return {
    perS: result.requests / result.seconds,
    cpuUs,
    p99Ms: result.p99Ms,
  };
}

/** Every contestant once a round, each round from another one on, so that a busy minute hits all of them. */
async function race(names: readonly ContestantName[]) {
  const samples = new Map<string, Sample[]>();
  const sink = await openSink();
  for (let run = 0; run < rounds; run++)
    for (let at = 0; at < names.length; at++) {
      const name = names[(at + run) % names.length]!;
      const { child, port } = await startContestant(name, sink.url);
      try {
        for (const { name: what, request } of cases) {
          const sample = await measure(child, port, request);
          const key = `${name}\n${what}`;
          samples.set(key, [...(samples.get(key) ?? []), sample]);
          console.log(
            `round ${run + 1}  ${name.padEnd(36)} ${what.padEnd(18)} ${round(sample.perS)}/s  ${round(sample.cpuUs, 1)} us`,
          );
        }
      } finally {
        const ended = once(child, "exit");
        child.send("stop");
        await ended;
      }
    }
  sink.close();
  return { samples, exportedBytes: sink.bytes() };
}

const BASE: ContestantName = "plain moleculer-web";

const names = contestantNames.filter((name) => !values.only || values.only.includes(name));
const loadBefore = round(loadavg()[0] ?? 0, 1);
const { samples, exportedBytes } = await race(names);

const middle = (name: string, what: string) => {
  const all = samples.get(`${name}\n${what}`) ?? [];
  return {
    perS: median(all.map(({ perS }) => perS)),
    cpuUs: Math.min(...all.map(({ cpuUs }) => cpuUs)),
    p99Ms: median(all.map(({ p99Ms }) => p99Ms)),
  };
};
/** Median over the rounds of the ratio within one round: what slows a round slows both. */
const ratio = (name: string, what: string, pick: (sample: Sample) => number) => {
  const own = samples.get(`${name}\n${what}`) ?? [];
  const base = samples.get(`${BASE}\n${what}`) ?? [];
  return round(median(own.map((sample, at) => pick(sample) / pick(base[at]!))), 2);
};
const results = cases.flatMap(({ name: what }) =>
  names.map((name) => {
    const { perS, cpuUs, p99Ms } = middle(name, what);
    return {
      what,
      name,
      perS: round(perS),
      cpuUs: round(cpuUs, 1),
      p99Ms: round(p99Ms, 1),
      perSToPlain: ratio(name, what, (sample) => sample.perS),
      perCpuToPlain: round(middle(BASE, what).cpuUs / cpuUs, 2),
    };
  }),
);
const report = {
  question:
    "How many requests a second does the gateway take, with metrics and traces on, beside plain moleculer-web and Fastify with the same answers?",
  run: `npm run bench:gateway -- --rounds ${rounds} --seconds ${values.seconds} --connections ${connections}`,
  machine: {
    cpu: processor(),
    node: process.version,
    loadAverageBefore: loadBefore,
    commit: commit(),
    date: new Date().toISOString().slice(0, 10),
  },
  exportedBytes,
  results,
};
const table = [
  "| | | requests/s | us of processor | p99 ms | requests/s to plain | per processor second to plain |",
  "|---|---|---|---|---|---|---|",
  ...results.map(
    (row) =>
      `| ${row.what} | ${row.name} | ${row.perS} | ${row.cpuUs} | ${row.p99Ms} | ${row.perSToPlain} | ${row.perCpuToPlain} |`,
  ),
];
const text = [
  "# Gateway",
  "",
  report.question,
  "",
  ...table,
  "",
  "Each contestant is one process with one thread; the load comes from another, over as many connections as said, each with one request under way. Every contestant answers the same bytes but for the time. reelmesh counts each request, limits clients, checks access and parameters, and sends traces to a collector in a third process. Plain moleculer-web calls the same actions (with their check of parameters) through its own routes, body parser and authentication hook. Fastify has no broker: it shows what the machine can do.",
  "",
  "Why the numbers and traces of the product cost little: a series is looked up once for a route and status, not by labels for each request; what can be read (memory, queues, nodes) is read when somebody asks; whether a request is recorded is decided before there is a span, and at most 50 traces a second are begun on a gateway. Moleculer's metrics update some ten series for each call, each found by its labels; its tracing makes a span with tags for each call and emits an event for each.",
  "",
  `${report.machine.cpu}, Node ${report.machine.node}, load average before the run ${loadBefore} (ratios are medians of the ratios within a round; processor time is that of the serving thread, in the slice of 150 ms that one in ten undercuts, and of the rounds the quietest: other work on the machine only adds to it), ${connections} connections, ${rounds} rounds of ${values.seconds} s, ${round(exportedBytes / 1e6, 1)} MB of traces taken, commit ${report.machine.commit}, ${report.machine.date}.`,
  ...(loadBefore > cpus().length
    ? [
        "The machine had more to do than this: requests a second tell how much of it each contestant got. What the work costs tells the processor time.",
      ]
    : []),
  `Run: ${report.run}`,
  "",
].join("\n");
await mkdir("bench/reports", { recursive: true });
await writeFile(`${values.report}.json`, `${JSON.stringify(report, null, 2)}\n`);
await writeFile(`${values.report}.md`, text);
console.log(`\n${text}`);

// Wall time of the product's executor against one hand-written FFmpeg command for the same picture.
// npm run bench:render [-- --runs N] [--case demo|minute]: one case alone writes no report
import { execFile } from "node:child_process";
import { copyFile, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { type Ffmpeg, findFfmpeg } from "../services/compose/media/ffmpeg.ts";
import { findGpuEncoder } from "../services/compose/media/gpu-encoder.ts";
import { readRender } from "../services/compose/media/verify-render.ts";
import { TimelineRequest } from "../services/compose/timeline/timeline.schema.ts";
import { timelineExecutor } from "../services/compose/timeline.executor.ts";
import { openToolsBench, type ToolsBench } from "../test/support/executor-tools.ts";
import { machineText } from "./machine.ts";
import { demoCase, longCase, type RenderCase } from "./render-cases.ts";

const run = promisify(execFile);
const target = 1.1;
/** Average likeness in dB above which two encodings of the same frames cannot be told apart by eye. */
const likenessMin = 38;

interface Measured {
  name: string;
  frames: number;
  /** Average PSNR of the two results in dB. */
  psnrDb: number;
  productMs: number[];
  byHandMs: number[];
  /** Product over hand-written, run by run. */
  ratio: { median: number; min: number; max: number };
  /** Where the product's time goes, median of the runs. */
  stagesMs: Record<string, number>;
}

const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
};

/** One run of the executor in an empty work directory; time by stage. */
async function runProduct(test: RenderCase, bench: ToolsBench) {
  await rm(bench.tools.workDir, { recursive: true });
  await mkdir(bench.tools.workDir);
  const marks: { stage: string; at: number }[] = [];
  const tools = {
    ...bench.tools,
    progress: (_: number, stage = "") => {
      if (stage !== marks.at(-1)?.stage) marks.push({ stage, at: performance.now() });
    },
  };
  const request = TimelineRequest.parse(test.request);
  const from = performance.now();
  await timelineExecutor.execute(request, tools);
  const until = performance.now();
  const stages = Object.fromEntries(
    marks.map(({ stage, at }, n) => [stage, (marks[n + 1]?.at ?? until) - at]),
  );
  return { ms: until - from, stages };
}

async function psnr(ffmpeg: Ffmpeg, a: string, b: string): Promise<number> {
  const { stderr } = await run(
    ffmpeg.ffmpeg,
    [
      "-v",
      "info",
      "-nostdin",
      "-nostats",
      "-i",
      a,
      "-i",
      b,
      "-lavfi",
      "psnr",
      "-an",
      "-f",
      "null",
      "-",
    ],
    { timeout: 120_000 },
  );
  const text = /average:(inf|[\d.]+)/.exec(stderr)?.[1];
  return text === "inf" ? 100 : Number(text);
}

async function measure(
  test: RenderCase,
  bench: ToolsBench,
  ffmpeg: Ffmpeg,
  runs: number,
): Promise<Measured> {
  for (const [name, file] of test.files)
    bench.objects.set(`${bench.config.OSS_BUCKET_NAME}/${name}`, file);
  const assFile = join(bench.dir, "by-hand.ass");
  const byHand = join(bench.dir, "by-hand.mp4");
  // A first run warms the disk cache and gives the script of the texts; it is not counted.
  await runProduct(test, bench);
  await copyFile(join(bench.tools.workDir, "texts.ass"), assFile);
  const args = ["-v", "error", "-nostdin", "-y", ...test.byHand(assFile, byHand)];
  const runByHand = async () => {
    const from = performance.now();
    await run(ffmpeg.ffmpeg, args, { timeout: 300_000 });
    return performance.now() - from;
  };
  const productMs: number[] = [];
  const byHandMs: number[] = [];
  const stages: Record<string, number>[] = [];
  for (let n = 0; n < runs; n++) {
    // Taking turns, and in turned order, so that a busy minute of the machine meets both.
    if (n % 2) byHandMs.push(await runByHand());
    const product = await runProduct(test, bench);
    productMs.push(product.ms);
    stages.push(product.stages);
    if (n % 2 === 0) byHandMs.push(await runByHand());
  }
  const made = (await readdir(bench.tools.workDir)).find((name) => name.startsWith("output."));
  const file = join(bench.tools.workDir, made ?? "");
  const [ours, theirs] = [
    await readRender(file, bench.tools),
    await readRender(byHand, bench.tools),
  ];
  if (ours.frames !== theirs.frames)
    throw new Error(`${test.name}: ${ours.frames} frames against ${theirs.frames} by hand`);
  const ratios = productMs.map((ms, n) => ms / byHandMs[n]!);
  return {
    name: test.name,
    frames: ours.frames,
    psnrDb: await psnr(ffmpeg, file, byHand),
    productMs,
    byHandMs,
    ratio: { median: median(ratios), min: Math.min(...ratios), max: Math.max(...ratios) },
    stagesMs: Object.fromEntries(
      Object.keys(stages[0] ?? {}).map((key) => [
        key,
        median(stages.map((stage) => stage[key] ?? 0)),
      ]),
    ),
  };
}

const seconds = (ms: number) => (ms / 1000).toFixed(2);
const table = (results: readonly Measured[]) =>
  [
    "| timeline | frames | product s | by hand s | ratio (min to max) | PSNR dB |",
    "|---|---|---|---|---|---|",
    ...results.map(
      (r) =>
        `| ${r.name} | ${r.frames} | ${seconds(median(r.productMs))} | ${seconds(median(r.byHandMs))} | ${r.ratio.median.toFixed(3)} (${r.ratio.min.toFixed(3)} to ${r.ratio.max.toFixed(3)}) | ${r.psnrDb.toFixed(1)} |`,
    ),
  ].join("\n");

const stagesText = (result: Measured) =>
  `${result.name}: ${Object.entries(result.stagesMs)
    .map(([stage, ms]) => `${stage} ${seconds(ms)} s`)
    .join(", ")}`;

async function main() {
  const { values: given } = parseArgs({
    options: { runs: { type: "string", default: "5" }, case: { type: "string" } },
  });
  const runs = Math.max(1, Number(given.runs) || 1);
  const bench = await openToolsBench();
  try {
    const ffmpeg = await findFfmpeg(bench.config);
    const cases = [
      ...(given.case === "minute" ? [] : [demoCase(ffmpeg, "samples")]),
      ...(given.case === "demo" ? [] : [await longCase(ffmpeg, "samples", bench.dir)]),
    ];
    const results: Measured[] = [];
    for (const test of cases) results.push(await measure(test, bench, ffmpeg, runs));
    const report = {
      question: "What does a render cost beyond the one FFmpeg command for the same picture?",
      run: `npm run bench:render -- --runs ${runs}`,
      machine: machineText(
        `FFmpeg ${ffmpeg.version}`,
        `encoder ${(await findGpuEncoder(ffmpeg)) ?? "libx264"}`,
      ),
      runs,
      target: `median ratio at most ${target}`,
      includes:
        "local copy and look at every source, plan, FFmpeg, check of every frame, upload to a local directory",
      notMeasured: [
        "queueing",
        "download and upload over a network",
        "the first search for FFmpeg of a process",
      ],
      results,
    };
    const text = [
      "# Rendering against one hand-written FFmpeg command",
      "",
      `${report.question} Run \`${report.run}\`: ${runs} runs of each, taking turns; medians.`,
      "",
      report.machine,
      "",
      table(results),
      "",
      `Target: ${report.target}. The product's time includes: ${report.includes}.`,
      `Not measured: ${report.notMeasured.join("; ")}.`,
      "",
      ...results.map((result) => `- ${stagesText(result)}`),
      "",
    ].join("\n");
    console.log(text);
    if (!given.case) {
      await mkdir("bench/reports", { recursive: true });
      await writeFile("bench/reports/render.json", `${JSON.stringify(report, null, 2)}\n`);
      await writeFile("bench/reports/render.md", text);
    }
    const unlike = results.filter(({ psnrDb }) => !(psnrDb >= likenessMin));
    for (const { name } of unlike) console.error(`${name}: not the same picture`);
    process.exitCode = unlike.length > 0 ? 1 : 0;
  } finally {
    await bench.close();
  }
}

await main();

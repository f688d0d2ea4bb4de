import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExecutorTools } from "../executor.ts";
import { mediaLimits } from "./config.ts";
import {
  planSheet,
  type SheetPlan,
  type SheetSource,
  sheetGrid,
  sheetLabels,
} from "./contact-sheet.plan.ts";
import { findFfmpeg } from "./ffmpeg.ts";
import { filterValue } from "./ffmpeg-command.ts";
import { runFfmpeg } from "./run-ffmpeg.ts";

/** Up to this length one pass over all frames is cheaper than seeking to each tile. */
const onePassMsMax = 45_000;
/** From this length on, the frames that others build on are enough to choose from. */
const plentyMs = 4_000;

const inputOf = (file: string, before: readonly string[] = []) => [
  ...before,
  "-protocol_whitelist",
  "file",
  "-f",
  "mov",
  "-threads",
  "2",
  "-i",
  file,
];

/** Frames in one pass; those that no other frame needs are not decoded where there are plenty. */
function onePass(file: string, plan: SheetPlan, durationMs: number) {
  const step = (durationMs / 1000 / plan.tiles.length).toFixed(4);
  const { columns, rows, gap } = plan;
  return {
    inputs: inputOf(file, ["-an", ...(durationMs > plentyMs ? ["-skip_frame", "noref"] : [])]),
    graph: `[0:v]select=gte(t\\,(selected_n+0.5)*${step}),scale=${plan.tileWidth}:${plan.tileHeight}:flags=area,tile=${columns}x${rows}:padding=${gap}:margin=${gap}`,
  };
}

/** The key frame before each wanted time: next to no decoding, however long the video is. */
function bySeeking(file: string, plan: SheetPlan): { inputs: string[]; graph: string } {
  const scaled = plan.tiles.map(
    (_, n) =>
      `[${n}:v]trim=end_frame=1,scale=${plan.tileWidth}:${plan.tileHeight}:flags=area,setpts=0[t${n}]`,
  );
  const { columns, rows, gap } = plan;
  const joined = plan.tiles.map((_, n) => `[t${n}]`).join("");
  return {
    inputs: plan.tiles.flatMap(({ ms }) =>
      inputOf(file, ["-noaccurate_seek", "-ss", (ms / 1000).toFixed(3), "-t", "1"]),
    ),
    graph: `${scaled.join(";")};${joined}interleave=nb_inputs=${plan.tiles.length},tile=${columns}x${rows}:padding=${gap}:margin=${gap}`,
  };
}

/**
 * A PNG with evenly spaced frames of a rendered video, each labelled with its time; of a size (under
 * about a megabyte) that an agent can be shown.
 */
export async function contactSheet(
  file: string,
  output: string,
  source: SheetSource,
  tools: Pick<ExecutorTools, "config" | "run" | "workDir">,
  options: { columns?: number; rows?: number } = {},
): Promise<{ width: number; height: number }> {
  const plan = planSheet(source, {
    columns: options.columns ?? sheetGrid.columns,
    rows: options.rows ?? sheetGrid.rows,
    pixelsMax: mediaLimits.contactSheetPixelsMax,
  });
  const { fontsDir } = await findFfmpeg(tools.config);
  const labels = join(tools.workDir, "sheet.ass");
  await writeFile(labels, sheetLabels(plan));
  const single = source.durationMs <= onePassMsMax || plan.tiles.length === 1;
  const { inputs, graph } = single ? onePass(file, plan, source.durationMs) : bySeeking(file, plan);
  const text = `setpts=0,ass=filename=${filterValue(labels)}:fontsdir=${filterValue(fontsDir)}`;
  await runFfmpeg(
    // biome-ignore format: option and value side by side
    [...inputs, "-filter_complex", `${graph},${text},format=rgb24`, "-frames:v", "1", "-f", "image2",
      "-update", "1", "-c:v", "png", "-pred", "mixed", output],
    tools,
  );
  return { width: plan.width, height: plan.height };
}

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExecutorTools } from "../executor.ts";
import { findFfmpeg } from "./ffmpeg.ts";
import { type RunFfmpegOptions, runFfmpeg } from "./run-ffmpeg.ts";

/** One FFmpeg command in parts, so that the direct runner and the adapter run the same thing. */
export interface FfmpegCommand {
  inputs: readonly { args: readonly string[]; file: string }[];
  /** Graph of `-filter_complex`; "" for none. */
  filterGraph: string;
  /** Maps, encoders and format, in the order of the command line. */
  outputArgs: readonly string[];
  output: string;
}

/** Linux gives one argument at most 128 KiB; a graph near that goes through a file. */
const inlineCharsMax = 100_000;

/** Escapes text for use as one option value inside a filter graph (FFmpeg's two levels of quoting). */
export const filterValue = (text: string): string =>
  text.replace(/[\\':]/g, "\\$&").replace(/[\\'[\],;]/g, "\\$&");

/** How the graph is handed over. The script option is gone from newer releases, its successor is missing in older ones. */
async function graphArgs(
  graph: string,
  tools: Pick<ExecutorTools, "config" | "workDir">,
): Promise<string[]> {
  if (graph === "") return [];
  if (Buffer.byteLength(graph) <= inlineCharsMax) return ["-filter_complex", graph];
  const file = join(tools.workDir, `graph-${Buffer.byteLength(graph)}.txt`);
  await writeFile(file, graph);
  const { release } = await findFfmpeg(tools.config);
  return [!release || release.major >= 7 ? "-/filter_complex" : "-filter_complex_script", file];
}

/** The command line of a command, without the program and the options of `runFfmpeg`. */
export async function commandArgs(
  command: FfmpegCommand,
  tools: Pick<ExecutorTools, "config" | "workDir">,
): Promise<string[]> {
  return [
    ...command.inputs.flatMap(({ args, file }) => [...args, "-i", file]),
    ...(await graphArgs(command.filterGraph, tools)),
    ...command.outputArgs,
    command.output,
  ];
}

/** Parts of a finished command line: options up to each `-i` and its file, then the rest, last the output. */
export function commandFromArgs(args: readonly string[]): FfmpegCommand {
  const inputs: { args: readonly string[]; file: string }[] = [];
  let from = 0;
  for (let at = args.indexOf("-i"); at >= 0; at = args.indexOf("-i", from)) {
    inputs.push({ args: args.slice(from, at), file: args[at + 1] ?? "" });
    from = at + 2;
  }
  return { inputs, filterGraph: "", outputArgs: args.slice(from, -1), output: args.at(-1) ?? "" };
}

/** Runs a command as it is. */
export async function runCommand(
  command: FfmpegCommand,
  tools: Pick<ExecutorTools, "config" | "workDir" | "run">,
  options: RunFfmpegOptions = {},
): Promise<void> {
  await runFfmpeg(await commandArgs(command, tools), tools, options);
}

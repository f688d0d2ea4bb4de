import ffmpeg from "fluent-ffmpeg";
import { AppError } from "../../../lib/errors.ts";
import type { ExecutorTools, ProcessExit } from "../executor.ts";
import { findFfmpeg } from "./ffmpeg.ts";
import { type FfmpegCommand, runCommand } from "./ffmpeg-command.ts";
import { failureError } from "./ffmpeg-failure.policy.ts";
import { baseArgs, progressArgs, progressReader, type RunFfmpegOptions } from "./run-ffmpeg.ts";

/** Values of `options.impl` that ask for the adapter (operations document, section 4). */
export const adapterNames = ["ffmpeg-python", "fluent-ffmpeg"] as const;
export const isAdapterName = (impl: string): boolean =>
  (adapterNames as readonly string[]).includes(impl);

type AdapterTools = Pick<ExecutorTools, "config" | "workDir" | "run" | "log" | "signal">;

/** Collects lines the way fluent-ffmpeg expects of what it spawned. */
interface Ring {
  get(): string;
}
type SpawnDone = (error: Error | null, stdout: Ring, stderr: Ring) => void;
interface Spawning {
  /** The one place where fluent-ffmpeg starts processes. */
  _spawnFfmpeg(args: string[], ...rest: unknown[]): void;
  /** Its look at formats and encoders: three processes, whose output it reads wrongly from FFmpeg 9 on. */
  _checkCapabilities(done: (error: Error | null) => void): void;
}

/** At least two arguments, which fluent-ffmpeg takes as they are. */
const pair = (args: readonly string[]): [string, string, ...string[]] => {
  const [first, second, ...others] = args;
  if (first === undefined || second === undefined)
    throw new Error(`a lone option cannot be handed over: ${first}`);
  return [first, second, ...others];
};

const ringOf = (lines: readonly string[]): Ring => ({ get: () => lines.join("\n") });

/** Lets fluent-ffmpeg start its processes through the attempt's tools, so that an abort or a restart ends them too. */
function spawnThroughTools(
  program: string,
  tools: AdapterTools,
  options: RunFfmpegOptions,
  seen: { exit?: ProcessExit },
): Spawning["_spawnFfmpeg"] {
  const onProgressLine = progressReader(options);
  return (args, ...rest) => {
    const done = rest.findLast((value) => typeof value === "function") as SpawnDone;
    const out: string[] = [];
    const work = args.includes("-i");
    const onLine = (line: string) => (work ? onProgressLine(line) : void out.push(line));
    tools.run(program, args, { cwd: tools.workDir, onLine }).then(
      (exit) => {
        if (work) seen.exit = exit;
        const failure = exit.code === 0 ? null : new Error(`exit code ${exit.code}`);
        done(failure, ringOf(out), ringOf(exit.stderrTail.split("\n")));
      },
      (error: Error) => done(error, ringOf(out), ringOf([])),
    );
  };
}

/** Runs a command through fluent-ffmpeg. Rejects with whatever goes wrong. */
export async function runFluent(
  command: FfmpegCommand,
  tools: AdapterTools,
  options: RunFfmpegOptions = {},
): Promise<void> {
  const { ffmpeg: program } = await findFfmpeg(tools.config);
  const seen: { exit?: ProcessExit } = {};
  await new Promise<void>((resolve, reject) => {
    const fluent = ffmpeg({ cwd: tools.workDir }).setFfmpegPath(program);
    const spawning = fluent as unknown as Spawning;
    for (const step of ["_spawnFfmpeg", "_checkCapabilities"] as const)
      if (typeof spawning[step] !== "function")
        throw new Error("this fluent-ffmpeg starts processes in another way");
    spawning._checkCapabilities = (done) => done(null);
    spawning._spawnFfmpeg = spawnThroughTools(program, tools, options, seen);
    for (const { args, file } of command.inputs) {
      fluent.input(file);
      // As separate arguments: in a list, fluent-ffmpeg would split an option with a blank in it.
      if (args.length > 0) fluent.inputOptions(...pair(args));
    }
    if (command.filterGraph) fluent.complexFilter(command.filterGraph);
    fluent
      .outputOptions(
        ...pair([
          ...command.outputArgs,
          ...baseArgs.filter((option) => option !== "-y"),
          ...progressArgs,
        ]),
      )
      .on("error", (error) => reject(error))
      .on("end", () => resolve())
      .save(command.output);
  }).catch((error: Error) => {
    if (tools.signal.aborted || !seen.exit) throw error;
    const { type, data } = failureError(seen.exit);
    throw new AppError(type, data);
  });
}

/**
 * Runs a command by the implementation that `options.impl` names. Any error of the adapter is logged and
 * the direct command does the work; only an abort ends it.
 * @returns the implementation that produced the output.
 */
export async function runByImplementation(
  impl: string,
  command: FfmpegCommand,
  tools: AdapterTools,
  options: RunFfmpegOptions = {},
  adapter: typeof runFluent = runFluent,
): Promise<"fluent-ffmpeg" | "ffmpeg-direct"> {
  if (isAdapterName(impl)) {
    try {
      await adapter(command, tools, options);
      tools.log("info", `rendered by the adapter fluent-ffmpeg (options.impl "${impl}")`);
      return "fluent-ffmpeg";
    } catch (error) {
      if (tools.signal.aborted) throw error;
      tools.log(
        "warn",
        `adapter fluent-ffmpeg failed (${(error as Error).message}); falling back to the direct FFmpeg command`,
      );
    }
  }
  await runCommand(command, tools, options);
  return "ffmpeg-direct";
}

import type { z } from "zod";
import type { Config } from "../../lib/config.ts";
import type { JobKind, JobResult } from "../scheduler/job.types.ts";
import type { OwnAddresses } from "../storage/storage.contract.ts";

export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** Last lines of standard error. */
  stderrTail: string;
}

export interface RunOptions {
  cwd?: string;
  /** Called with each line of standard output as it comes. */
  onLine?: (line: string) => void;
  onErrorLine?: (line: string) => void;
}

/** What an executor may use. Everything ends when `signal` is aborted: processes are killed as a group, the work directory is removed. */
export interface ExecutorTools {
  config: Config;
  /** Empty directory of this attempt. */
  workDir: string;
  signal: AbortSignal;
  /** 0 to 1, with the name of the stage. Also counts as a sign of life against the stall limit. */
  progress(fraction: number, stage?: string): void;
  log(level: "info" | "warn" | "error", text: string): void;
  /** Runs a program in its own process group, recorded in the node's journal so that a restart can kill it. Rejects only if it cannot be started or was aborted. */
  run(command: string, args: readonly string[], options?: RunOptions): Promise<ProcessExit>;
  /** How addresses of the product's own objects look. */
  addresses(): Promise<OwnAddresses>;
  /** Brings a storage object to a local file; one of more than `bytesMax` is refused with PAYLOAD_TOO_LARGE. */
  download(source: { bucket: string; key: string }, file: string, bytesMax?: number): Promise<void>;
  /** Stores a file under `jobs/<job>/<attempt>/<name>`; `role` tells what it is: "media", "poster", ... */
  upload(
    file: string,
    output: { name: string; contentType: string; role: string },
  ): Promise<JobResult["outputs"][number]>;
}

/**
 * One kind of work. `payload` is checked when the job is submitted and again on the node. An executor throws an
 * AppError; `retry: "never"` in the error table fails the job at once.
 */
export interface Executor<P extends z.ZodType = z.ZodType> {
  kind: JobKind;
  payload: P;
  /** Whether this payload needs the work directory; default: always. */
  usesFiles?(payload: z.output<P>): boolean;
  execute(
    payload: z.output<P>,
    tools: ExecutorTools,
  ): Promise<Omit<JobResult, "hash"> & { hash?: string }>;
}

import { createHash } from "node:crypto";
import { join } from "node:path";
import { AppError } from "../../lib/errors.ts";
import { outputPrefix } from "../../lib/job-output-key.ts";
import type { JobResult, StartOrder } from "../scheduler/job.types.ts";
import type { AttemptHost } from "./attempt-host.ts";
import type { ExecutionLimits } from "./config.ts";
import type { ExecutorTools } from "./executor.ts";
import type { AttemptKey, NodeJournal } from "./node-ports.ts";
import { ObjectTransfer } from "./object-transfer.ts";
import { runInGroup } from "./process-group.ts";

const hashOfNothing = createHash("sha256").digest("hex");

export interface ToolsContext {
  host: AttemptHost;
  order: StartOrder;
  workDir: string;
  /** Marks the processes of this attempt. */
  mark: string;
  signal: AbortSignal;
  journal: NodeJournal;
  limits: ExecutionLimits;
  progress(fraction: number, stage?: string): void;
  log(level: "info" | "warn" | "error", text: string): void;
  uploading(): void;
}

export interface AttemptTools extends ExecutorTools {
  /** Hash over all that was uploaded, in the order of the names. */
  outputHash(): string;
  /** Waits until nothing that was started through the tools goes on. */
  finished(): Promise<void>;
}

/** What one execution may use. Whatever it starts is remembered, so that its end can be waited for. */
export function makeTools(context: ToolsContext): AttemptTools {
  const { host, order, workDir, signal, journal, limits } = context;
  const transfer = new ObjectTransfer(host, limits, signal);
  const hashes = new Map<string, string>();
  const open = new Set<Promise<unknown>>();
  const track = <T>(work: Promise<T>): Promise<T> => {
    const settled = work.then(
      () => undefined,
      () => undefined,
    );
    open.add(settled);
    void settled.then(() => open.delete(settled));
    return work;
  };
  const key = { jobId: order.jobId, attempt: order.attempt };

  return {
    config: host.config,
    workDir,
    signal,
    progress: context.progress,
    log: context.log,
    run: (command, args, options = {}) =>
      track(
        runInGroup(command, args, {
          cwd: workDir,
          ...options,
          signal,
          mark: context.mark,
          limits,
          started: (identity) => journal.addProcess(key, identity),
        }),
      ),
    addresses: () => track(transfer.addresses()),
    download: (source, file, bytesMax) => track(transfer.download(source, file, bytesMax)),
    upload: (file, output) => track(upload(file, output)),
    outputHash() {
      if (hashes.size === 0) return hashOfNothing;
      const hash = createHash("sha256");
      for (const name of [...hashes.keys()].sort()) hash.update(`${name}\0${hashes.get(name)}\0`);
      return hash.digest("hex");
    },
    finished: async () => {
      await Promise.all(open);
    },
  };

  async function upload(
    file: string,
    output: { name: string; contentType: string; role: string },
  ): Promise<JobResult["outputs"][number]> {
    signal.throwIfAborted();
    if (!/^[\w][\w.-]{0,200}$/.test(output.name))
      throw new AppError("INVALID_INPUT", {
        reason: `output name ${output.name}: only letters, digits, dots, dashes`,
      });
    const { bucket } = await transfer.addresses();
    const { name, contentType, role } = output;
    const key = outputPrefix(order) + name;
    context.uploading();
    const { bytes, sha256 } = await transfer.upload(file, { bucket, key, contentType });
    hashes.set(name, sha256);
    return { bucket, key, bytes, contentType, role };
  }
}

/** A directory of the attempt's own under the node's data. */
export const workDirOf = (dataDir: string, { jobId, attempt }: AttemptKey) =>
  join(dataDir, "work", `${jobId}-${attempt}`);

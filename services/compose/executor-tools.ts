import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { AppError } from "../../lib/errors.ts";
import type { JobResult, StartOrder } from "../scheduler/job.types.ts";
import type { AttemptHost } from "./attempt-host.ts";
import type { ExecutionLimits } from "./config.ts";
import type { ExecutorTools } from "./executor.ts";
import type { AttemptKey, NodeJournal } from "./node-ports.ts";
import { runInGroup } from "./process-group.ts";

export const outputPrefix = ({ jobId, attempt }: AttemptKey) => `jobs/${jobId}/${attempt}/`;

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
    download: (source, file) =>
      track(
        (async () => {
          await host.storageThere(limits.storageWaitMs, signal);
          const stream = await host.read(source);
          await pipeline(stream, createWriteStream(file), { signal });
        })(),
      ),
    upload: (file, output) => track(upload(file, output)),
    outputHash() {
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
    await host.storageThere(limits.storageWaitMs, signal);
    if (!/^[\w][\w.-]{0,200}$/.test(output.name))
      throw new AppError("INVALID_INPUT", {
        reason: `output name ${output.name}: only letters, digits, dots, dashes`,
      });
    const { size } = await stat(file);
    const hash = createHash("sha256");
    const stream = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        hash.update(chunk);
        done(null, chunk);
      },
    });
    // A failed read destroys the stream, and so fails the call that reads it.
    void pipeline(createReadStream(file), stream).catch(() => undefined);
    const stop = () => stream.destroy(signal.reason as Error);
    signal.addEventListener("abort", stop, { once: true });
    try {
      context.uploading();
      const object = {
        bucket: host.config.OSS_BUCKET_NAME,
        key: outputPrefix(order) + output.name,
        contentType: output.contentType,
        bytes: size,
      };
      await host.put(object, stream);
      signal.throwIfAborted();
      hashes.set(output.name, hash.digest("hex"));
      const { bucket, key, contentType } = object;
      return { bucket, key, bytes: size, contentType, role: output.role };
    } finally {
      signal.removeEventListener("abort", stop);
      stream.destroy();
    }
  }
}

/** A directory of the attempt's own under the node's data. */
export const workDirOf = (dataDir: string, { jobId, attempt }: AttemptKey) =>
  join(dataDir, "work", `${jobId}-${attempt}`);

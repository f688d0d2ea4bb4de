import { randomUUID } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { AppError, asAppError, errorMessage, errorTable } from "../../lib/errors.ts";
import { describeIssues } from "../../lib/issues.ts";
import type { StartOrder } from "../scheduler/job.types.ts";
import type { AttemptHost } from "./attempt-host.ts";
import { watchedTools } from "./attempt-watch.ts";
import type { ExecutionLimits } from "./config.ts";
import type { Executor } from "./executor.ts";
import { makeTools, workDirOf } from "./executor-tools.ts";
import { LogBatch } from "./log-batch.ts";
import type { ExecutionOutcome, NodeJournal } from "./node-ports.ts";

export interface ExecutionContext {
  host: AttemptHost;
  executors: Readonly<Record<string, Executor>>;
  journal: NodeJournal;
  limits: ExecutionLimits;
  /** Mark in the environment of the attempt's processes. */
  mark: string;
  /** Called when the attempt begins to store something. */
  uploading(): void;
}

/** What went wrong, in terms of the error table; a full disk is told from other failures. */
export function failureOf(error: unknown): ExecutionOutcome & { ok: false } {
  const full = (error as NodeJS.ErrnoException | undefined)?.code === "ENOSPC";
  const known = full
    ? { type: "DISK_FULL" as const, data: { where: "the compose node" } }
    : asAppError(error);
  if (known) {
    const { type, data } = known;
    return {
      ok: false,
      error: { type, message: errorMessage(type, data), data },
      retryable: errorTable[type].retry !== "never",
    };
  }
  const data = { reference: randomUUID() };
  return {
    ok: false,
    error: { type: "INTERNAL", message: errorMessage("INTERNAL", data), data },
    retryable: true,
  };
}

function parsePayload(executor: Executor, order: StartOrder): unknown {
  const parsed = executor.payload.safeParse(order.payload);
  if (parsed.success) return parsed.data;
  const issues = describeIssues(parsed.error);
  throw new AppError("INVALID_INPUT", {
    reason: issues.map((issue) => `${issue.path || "payload"}: ${issue.message}`).join("; "),
    issues,
  });
}

/** 0 to 1 in steps of a thousandth: finer steps are noise to whoever reads them. */
const shareOf = (fraction: number): number =>
  Math.round(Math.min(1, Math.max(0, fraction || 0)) * 1000) / 1000;

/** Runs one attempt. Settles when its processes are gone and its work directory is removed. */
export async function runAttempt(
  context: ExecutionContext,
  order: StartOrder,
  signal: AbortSignal,
  report: (progress: number, stage?: string) => void,
): Promise<ExecutionOutcome> {
  const { host, limits } = context;
  const workDir = workDirOf(host.config.DATA_DIR, order);
  const log = new LogBatch(limits, (lines) => host.addLog(order, lines));
  const tools = watchedTools(
    makeTools({
      ...context,
      order,
      workDir,
      signal,
      progress: (fraction, stage) => report(shareOf(fraction), stage),
      log: (level, text) => log.add({ at: Date.now(), level, text }),
    }),
  );
  let usesFiles = false;
  try {
    const executor = context.executors[order.kind];
    if (!executor)
      throw new AppError("JOB_KIND_UNKNOWN", {
        kind: order.kind,
        known: Object.keys(context.executors),
      });
    const payload = parsePayload(executor, order);
    usesFiles = executor.usesFiles?.(payload) ?? true;
    if (usesFiles) await mkdir(workDir, { recursive: true, mode: 0o700 });
    const result = await untilAborted(executor.execute(payload, tools), signal, limits.abortMsMax);
    return { ok: true, result: { ...result, hash: result.hash ?? tools.outputHash() } };
  } catch (error) {
    const failure = failureOf(error);
    if (!signal.aborted) {
      const { type, message } = failure.error;
      // What went wrong inside is for the operator; the job's log has the reference to it.
      if (type === "INTERNAL") host.logger.warn(`job ${order.jobId}: ${message}`, error);
    }
    return failure;
  } finally {
    await tools.finished();
    if (usesFiles) await discard(workDir, host);
    void log.flush();
  }
}

async function discard(workDir: string, host: AttemptHost): Promise<void> {
  await rm(workDir, { recursive: true, force: true, maxRetries: 3 }).catch((error: Error) => {
    host.logger.warn(`cannot remove ${workDir}: ${error.message}`);
  });
}

/** An executor that does not heed its abort is left behind after a while: a slot must not be lost to it. */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal, boundMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const gaveUp = new Promise<never>((_, reject) => {
    const arm = () => {
      timer = setTimeout(() => reject(new Error("the executor did not heed its abort")), boundMs);
    };
    if (signal.aborted) arm();
    else signal.addEventListener("abort", arm, { once: true });
  });
  try {
    return await Promise.race([work, gaveUp]);
  } finally {
    clearTimeout(timer);
  }
}

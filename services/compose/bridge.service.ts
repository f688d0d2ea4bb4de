import { randomUUID } from "node:crypto";
import type { z } from "zod";
import { AppError, asAppError } from "../../lib/errors.ts";
import { restoreUrls } from "../../lib/restore-urls.ts";
import { type ActionContext, implementService, type ServiceHost } from "../../lib/service.ts";
import type { JobView } from "../scheduler/scheduler.contract.ts";
import { answerFor, hasEnded, jobFor, ownerOf } from "./bridge.answer.ts";
import { checkComposition, checkTimeline } from "./bridge.check.ts";
import {
  bridgeContract,
  type ComposeTask,
  type EnhanceTask,
  type TimelineTask,
} from "./bridge.contract.ts";
import { namedSources } from "./bridge.sources.ts";
import { checkSources } from "./media/check-sources.ts";

interface Task {
  idempotency_key?: string;
  priority: number;
  run_id?: string;
}

/** A run that does not exist is an error of the request, told before anything starts. */
async function checkRun({ call }: ActionContext<Task>, runId: string): Promise<void> {
  await call("agent.run.get", { id: runId }).catch((error) => {
    if (asAppError(error)?.type !== "NOT_FOUND") throw error;
    const message = `there is no agent app run ${runId}; create one with POST /agent/admin/run, or leave run_id out`;
    throw new AppError("INVALID_INPUT", {
      reason: `run_id: ${message}`,
      issues: [{ path: "run_id", message }],
    });
  });
}

/** Ties a run to its job. A job that was accepted before may have ended, and may belong to another run. */
async function attachRun(
  { call, params }: ActionContext<Task>,
  runId: string,
  { repeated, ...job }: JobView & { repeated: boolean },
): Promise<void> {
  if (repeated) {
    const { rows } = await call("agent.run.list", { job_id: job.id });
    if (rows.some(({ id }) => id !== runId))
      throw new AppError("IDEMPOTENCY_MISMATCH", { key: params.idempotency_key ?? "" });
  }
  await call("agent.run.attachJob", { runId, jobId: job.id });
  if (repeated && hasEnded(job.state)) await call("agent.run.settle", { job, params: { runId } });
}

/**
 * Hands work to the scheduler on behalf of whoever asked; the job is on disk when this returns. The end of
 * the job reaches its run through the scheduler's outbox, so that it is not lost with this process.
 */
async function submit(
  ctx: ActionContext<Task>,
  { config }: ServiceHost,
  kind: string,
  payload: Record<string, unknown>,
) {
  const { priority, idempotency_key, run_id: runId } = ctx.params;
  if (runId !== undefined) await checkRun(ctx, runId);
  await checkSources(namedSources(payload), config, ctx.call);
  const key = idempotency_key ?? (ctx.meta["idempotencyKey"] as string | undefined);
  const job = await ctx.call("scheduler.submit", {
    kind,
    payload,
    owner: ownerOf(ctx.meta.actor),
    priority,
    // Always one: only then may a call whose answer was lost with a leader be repeated.
    idempotencyKey: key ?? randomUUID(),
    onSettled: runId === undefined ? undefined : { action: "agent.run.settle", params: { runId } },
  });
  if (runId !== undefined) await attachRun(ctx, runId, job);
  return { job_id: job.id, status: job.state, repeated: key !== undefined && job.repeated };
}

/** The task without what is said beside it. */
function workOf<T extends Task>(task: T): Omit<T, keyof Task> {
  const { idempotency_key: _key, priority: _priority, run_id: _run, ...work } = restoreUrls(task);
  return work;
}

export const bridgeService = implementService(bridgeContract, {
  handlers: {
    composeTimeline: (ctx: ActionContext<z.output<typeof TimelineTask>>, _state, host) => {
      const request = workOf(ctx.params);
      checkTimeline(request);
      return submit(ctx, host, "timeline", request);
    },
    compose: (ctx: ActionContext<z.output<typeof ComposeTask>>, _state, host) => {
      const task = workOf(ctx.params);
      checkComposition(task);
      return submit(ctx, host, "compose", task);
    },
    enhance: (ctx: ActionContext<z.output<typeof EnhanceTask>>, _state, host) =>
      submit(ctx, host, "enhance", workOf(ctx.params)),
    job: async (ctx) =>
      answerFor(await jobFor(ctx.params.job_id, ctx.meta.actor, ctx.call), ctx.call),
  },
});

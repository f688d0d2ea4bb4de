import { setTimeout as sleep } from "node:timers/promises";
import { AppError } from "../../lib/errors.ts";
import { type ActionContext, implementService } from "../../lib/service.ts";
import { answerFor, hasEnded, jobFor } from "../compose/bridge.answer.ts";
import { agentToolsContract } from "./agent-tools.contract.ts";
import { OpenCalls, reportProgress, signals } from "./call-signals.ts";
import { mcpLimits } from "./config.ts";
import { previewOf } from "./preview.ts";

interface WaitParams {
  job_id: string;
  timeout_seconds: number;
}

/** Looks again and again until the job has ended, the time is over or the agent has given up. */
async function waitForJob(ctx: ActionContext<WaitParams>, signal: AbortSignal) {
  const { job_id, timeout_seconds } = ctx.params;
  const deadline = performance.now() + timeout_seconds * 1000;
  let told = "";
  for (;;) {
    const job = await jobFor(job_id, ctx.meta.actor, ctx.call);
    const ended = hasEnded(job.state);
    const progress = job.state === "success" ? 1 : job.progress;
    const message = job.stage ? `${job.state}: ${job.stage}` : job.state;
    const news = `${progress} ${message}`;
    if (news !== told) await reportProgress(ctx, progress, 1, message);
    told = news;
    const leftMs = deadline - performance.now();
    if (ended || leftMs <= 0 || signal.aborted)
      return { ...(await answerFor(job, ctx.call)), ended };
    await sleep(Math.min(mcpLimits.waitPollMs, leftMs), undefined, { signal }).catch(
      () => undefined,
    );
  }
}

export const agentToolsService = implementService(agentToolsContract, {
  start: () => new OpenCalls(),
  stop: (calls) => calls.cancelAll(),
  events: {
    [signals.cancelled]: (payload, calls) => calls.cancel((payload as { callId: string }).callId),
  },
  handlers: {
    // The one place that decides where agents' renders go: here, the bridge of this mesh.
    compose: (ctx) => ctx.call("bridge.composeTimeline", ctx.params),
    job: async (ctx) =>
      answerFor(await jobFor(ctx.params.job_id, ctx.meta.actor, ctx.call), ctx.call),
    wait: (ctx, calls) => calls.run(ctx, (signal) => waitForJob(ctx, signal)),
    async cancel(ctx) {
      const { job_id, reason } = ctx.params;
      const job = await jobFor(job_id, ctx.meta.actor, ctx.call);
      if (job.state === "success" || job.state === "failed")
        throw new AppError("JOB_ENDED", { id: job_id, state: job.state });
      return answerFor(await ctx.call("scheduler.cancel", { id: job_id, reason }), ctx.call);
    },
    preview: (ctx, _calls, host) => previewOf(ctx, host),
  },
});

import { AppError, asAppError } from "../../lib/errors.ts";
import type { ActionContext } from "../../lib/service.ts";
import type { Patch } from "../../lib/store/record-store.ts";
import type { RecordOf } from "../../mixins/resource.ts";
import { implementResource } from "../../mixins/resource-service.ts";
import type { JobView } from "../scheduler/scheduler.contract.ts";
import { agentRun } from "./run.contract.ts";

type Caller = Pick<ActionContext<unknown>, "call">;
type Run = RecordOf<(typeof agentRun)["spec"]["fields"]>;

/** A run is shown without its job's progress rather than late. */
const LIVE_TIMEOUT_MS = 2_000;

const ended = new Set<string>(["success", "failed", "cancelled"]);

/** The app must be there and enabled before a run of it is stored. */
async function checkApp(ctx: Caller, appId: string): Promise<void> {
  const app = await ctx.call("agent.app.get", { id: appId }).catch((error) => {
    if (asAppError(error)?.type !== "NOT_FOUND") throw error;
    throw new AppError("INVALID_INPUT", { reason: `app_id: there is no agent app ${appId}` });
  });
  if (app.status !== "enabled")
    throw new AppError("CONFLICT", { reason: `agent app ${appId} is disabled` });
}

/** Address of the finished video: the output with the role "media". */
async function mediaUrlOf(ctx: Caller, job: JobView): Promise<string | undefined> {
  const output = job.result?.outputs.find(({ role }) => role === "media");
  if (!output) return undefined;
  return (await ctx.call("storage.link", { bucket: output.bucket, key: output.key })).url;
}

/** One end of one job, to know it again when it is delivered twice. */
const mark = (job: Pick<JobView, "id" | "state">) => `${job.id}:${job.state}`;

/** What a run shows of a job that ended. */
function settledPatch(job: JobView, mediaUrl: string | undefined): Patch {
  const failure = job.error ?? job.lastError;
  return {
    settled_as: mark(job),
    job_id: job.id,
    status: job.state,
    progress: job.state === "success" ? 1 : job.progress,
    media_url: mediaUrl ?? null,
    error: job.state === "failed" && failure ? failure : null,
    result: job.result
      ? { ...job.result.info, outputs: job.result.outputs, hash: job.result.hash }
      : null,
  };
}

export const agentRunService = implementResource(agentRun, {
  hooks: {
    async beforeCreate(run, ctx) {
      await checkApp(ctx, run.app_id);
      return run;
    },

    /** While its job is under way the run shows the job's own state, which is newer than what is stored. */
    async afterGet(run, ctx) {
      if (!run.job_id || ended.has(run.status)) return run;
      const job = await ctx
        .call("scheduler.get", { id: run.job_id }, { timeout: LIVE_TIMEOUT_MS })
        .catch(() => undefined);
      if (!job || ended.has(job.state)) return run;
      return { ...run, status: job.state, progress: job.progress };
    },
  },

  handlers: {
    async put(ctx, { store, visible }) {
      const { id, version, ...patch } = ctx.params;
      return visible(await store.updateIf(id, version, patch)) as Run;
    },

    async attachJob(ctx, { store, visible }) {
      const { runId, jobId } = ctx.params;
      const run = await store.updateIf(runId, undefined, (current) =>
        // The job may have ended before this call came: what it left must stay.
        current["job_id"] === jobId
          ? undefined
          : {
              job_id: jobId,
              status: "pending",
              progress: 0,
              media_url: null,
              result: null,
              error: null,
            },
      );
      return visible(run) as Run;
    },

    async settle(ctx, { store }) {
      const { job, params } = ctx.params;
      if (!ended.has(job.state)) return { settled: false, reason: "not-ended" as const };
      const before = await store.get(params.runId);
      if (!before) return { settled: false, reason: "run-gone" as const };
      const mediaUrl = await mediaUrlOf(ctx, job);
      let reason: "stored" | "repeated" | "other-job" = "stored";
      await store
        .updateIf(params.runId, undefined, (current) => {
          const attached = current["job_id"];
          reason = "stored";
          if (attached !== undefined && attached !== job.id) reason = "other-job";
          // A job that succeeded is never run again: any other end of it is an earlier one that comes late.
          else if (
            [mark(job), mark({ ...job, state: "success" })].includes(`${current["settled_as"]}`)
          )
            reason = "repeated";
          return reason === "stored" ? settledPatch(job, mediaUrl) : undefined;
        })
        .catch((error) => {
          // Removed meanwhile: nothing is left to settle.
          if (asAppError(error)?.type !== "NOT_FOUND") throw error;
        });
      return { settled: (reason as string) !== "other-job", reason };
    },
  },
});

import { z } from "zod";
import type { Actor } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import type { TypedCall } from "../../lib/service.ts";
import { type JobState, jobStates } from "../scheduler/job.types.ts";
import type { JobView } from "../scheduler/scheduler.contract.ts";

const Time = z.string().describe("ISO 8601, UTC");

/** A job as the bridge and the MCP interface show it: names as in the platform document, times as text. */
export const JobAnswer = z.object({
  job_id: z.uuid(),
  kind: z.string().describe("timeline, compose, enhance, ..."),
  status: z.enum(jobStates),
  progress: z.number().min(0).max(1).describe("Share of the work that is done"),
  stage: z.string().optional().describe("What the compose node does at the moment"),
  attempt: z.int().describe("Attempts so far; more than 1: it was tried again"),
  priority: z.int(),
  created_at: Time,
  started_at: Time.optional(),
  ended_at: Time.optional(),
  error: z
    .object({
      type: z.string(),
      message: z.string(),
      data: z.record(z.string(), z.unknown()).optional(),
    })
    .optional()
    .describe("Why it failed; while it still runs, why the attempt before failed"),
  media_url: z.string().optional().describe("Link to the result, once status is success"),
  outputs: z
    .array(
      z.object({
        role: z.string().describe("media, poster, contact-sheet, ..."),
        url: z.string(),
        bytes: z.int(),
        content_type: z.string(),
        bucket: z.string(),
        key: z.string(),
      }),
    )
    .describe("Everything that the job made; empty before it has succeeded"),
  info: z
    .record(z.string(), z.unknown())
    .optional()
    .describe("What was measured of the result: frames, duration, size"),
});
export type JobAnswer = z.infer<typeof JobAnswer>;

export const ownerOf = (actor: Actor | undefined): string =>
  actor ? `${actor.realm}:${actor.id}` : "system:system";

const seesEverything = (actor: Actor | undefined): boolean =>
  !actor || actor.realm === "admin" || actor.realm === "system";

/** Jobs of others look as if they did not exist; administrators see all. */
export function checkOwner(job: JobView, actor: Actor | undefined): void {
  if (!seesEverything(actor) && job.owner !== ownerOf(actor))
    throw new AppError("JOB_NOT_FOUND", { id: job.id });
}

/** Whose jobs a caller may list: their own, or (undefined) everybody's. */
export const visibleOwner = (actor: Actor | undefined): string | undefined =>
  seesEverything(actor) ? undefined : ownerOf(actor);

export const hasEnded = (status: JobState): boolean =>
  status === "success" || status === "failed" || status === "cancelled";

const iso = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());

/** The answer for one job, with lasting links to its outputs. */
export async function answerFor(job: JobView, call: TypedCall): Promise<JobAnswer> {
  const outputs = await Promise.all(
    (job.result?.outputs ?? []).map(async ({ bucket, key, bytes, contentType, role }) => ({
      role,
      url: (await call("storage.link", { bucket, key })).url,
      bytes,
      content_type: contentType,
      bucket,
      key,
    })),
  );
  return {
    job_id: job.id,
    kind: job.kind,
    status: job.state,
    progress: job.state === "success" ? 1 : job.progress,
    stage: job.stage,
    attempt: job.attempt,
    priority: job.priority,
    created_at: iso(job.createdAt)!,
    started_at: iso(job.startedAt),
    ended_at: iso(job.endedAt),
    error: job.error ?? (hasEnded(job.state) ? undefined : job.lastError),
    media_url: outputs.find(({ role }) => role === "media")?.url,
    outputs,
    info: job.result?.info,
  };
}

/** One job by its id, as far as the caller may see it. */
export async function jobFor(
  id: string,
  actor: Actor | undefined,
  call: TypedCall,
): Promise<JobView> {
  const job = await call("scheduler.get", { id });
  checkOwner(job, actor);
  return job;
}

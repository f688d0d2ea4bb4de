import type { z } from "zod";
import type { SchedulerConfig } from "./config.ts";
import type { JobSpec, Ms } from "./job.types.ts";
import { newJobId } from "./job-id.ts";
import type { Submit } from "./scheduler.contract.ts";

export type SubmitRequest = z.output<typeof Submit> & { owner: string } & Pick<JobSpec, "trace">;

/** What is kept of a request for the whole life of its job. */
export function specOf(
  { delayMs, ...request }: SubmitRequest,
  now: Ms,
  random: () => number,
  config: Pick<SchedulerConfig, "backoffMsMax">,
): JobSpec {
  return {
    ...request,
    id: newJobId(now, random),
    createdAt: now,
    dueAt: now + delayMs,
    backoffMsMax: Math.max(config.backoffMsMax, request.backoffMs),
  };
}

/**
 * Two requests are the same when all that the client chose is, except the delay: that counts from the first one. Each
 * has a trace of its own.
 */
export const isSameRequest = (a: JobSpec, b: JobSpec): boolean => requestOf(a) === requestOf(b);

function requestOf(spec: JobSpec): string {
  const { id: _id, createdAt: _createdAt, dueAt: _dueAt, trace: _trace, ...request } = spec;
  return canonical(request);
}
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  fields.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${canonical(field)}`).join()}}`;
}

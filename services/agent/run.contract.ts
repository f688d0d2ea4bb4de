import { z } from "zod";
import { action } from "../../lib/contract.ts";
import { defineResource } from "../../mixins/resource.ts";
import { RecordId, recordSchema } from "../../mixins/resource-schema.ts";
import { JobId, JobView } from "../scheduler/scheduler.contract.ts";

export const runStatuses = ["pending", "running", "success", "failed", "cancelled"] as const;

const json = z.record(z.string(), z.unknown());
const status = z.enum(runStatuses);
const mediaUrl = z.url({ protocol: /^https?$/ }).max(4000);
const runError = z.object({
  type: z.string().max(120),
  message: z.string().max(4000),
  data: json.optional(),
});

/** Names as in the platform document, section 2: media_url, status, result. */
const fields = z.object({
  app_id: RecordId.describe("Agent app that runs"),
  status: status.default("pending"),
  media_url: mediaUrl
    .optional()
    .describe("The finished video; set when its composition has succeeded and is uploaded"),
  result: json.optional(),
  input: json.optional().describe("What the run was started with"),
  job_id: JobId.optional().describe("Composition job of this run"),
  error: runError.optional(),
  progress: z.number().min(0).max(1).default(0),
  settled_as: z.string().optional().describe("Job and state whose end was stored last"),
});
const hidden = ["settled_as"] as const;
const RunRecord = recordSchema(fields, hidden) as unknown as z.ZodType<
  z.output<typeof fields> & { id: string; version: number; createdAt: number; updatedAt: number }
>;

export const agentRun = defineResource({
  service: "agent.run",
  about: "Agent app runs",
  label: "agent app run",
  path: "/agent/admin/run",
  cached: true,
  access: { read: ["admin", "agent"], write: ["admin", "agent"] },
  fields,
  filters: ["app_id", "status", "job_id"],
  sorts: ["status"],
  immutable: ["app_id"],
  internal: hidden,
  hidden,
  serve: ["read", "create", "remove"],
  actions: {
    put: action({
      summary: "Set status and result of a run",
      description:
        "Fields that are left out stay as they are; null removes media_url, result or error.",
      input: z.strictObject({
        id: RecordId,
        version: z.int().min(1).optional(),
        status: status.optional(),
        result: json.nullable().optional(),
        media_url: mediaUrl.nullable().optional(),
        error: runError.nullable().optional(),
        progress: z.number().min(0).max(1).optional(),
      }),
      output: RunRecord,
      rest: "PUT /agent/admin/run/{id}",
      access: ["admin", "agent"],
      errors: ["NOT_FOUND", "VERSION_CONFLICT"],
      idempotent: true,
    }),
    attachJob: action({
      summary: "A job works for this run; safe to repeat",
      input: z.strictObject({ runId: RecordId, jobId: JobId }),
      output: RunRecord,
      errors: ["NOT_FOUND"],
      idempotent: true,
    }),
    settle: action({
      summary: "The job of a run has ended; the scheduler's outbox calls it at least once",
      input: z.object({ job: JobView, params: z.object({ runId: RecordId }) }),
      output: z.object({
        settled: z.boolean(),
        reason: z.enum(["stored", "repeated", "run-gone", "other-job", "not-ended"]),
      }),
      idempotent: true,
    }),
  },
});

export const agentRunContract = agentRun.contract;

import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";
import { jobStates } from "./job.types.ts";

export const JobId = z.uuid().describe("Identifier of a job");
const ErrorView = z.object({
  type: z.string(),
  message: z.string(),
  data: z.record(z.string(), z.unknown()).optional(),
});

/** A job as clients see it; the same in REST, MCP and the operator's console. */
export const JobView = z.object({
  id: JobId,
  kind: z.string(),
  queue: z.string(),
  owner: z.string(),
  state: z.enum(jobStates),
  priority: z.int(),
  progress: z.number().min(0).max(1),
  stage: z.string().optional(),
  attempt: z.int().describe("Attempts so far"),
  errors: z.int(),
  nodesLost: z.int(),
  node: z.string().optional().describe("Compose node that runs it"),
  createdAt: z.int().describe("Milliseconds since the epoch"),
  readyAt: z.int().optional(),
  startedAt: z.int().optional(),
  endedAt: z.int().optional(),
  error: ErrorView.optional(),
  lastError: ErrorView.optional(),
  result: z
    .object({
      hash: z.string(),
      outputs: z.array(
        z.object({
          bucket: z.string(),
          key: z.string(),
          bytes: z.int(),
          contentType: z.string(),
          role: z.string(),
        }),
      ),
      info: z.record(z.string(), z.unknown()),
    })
    .optional(),
});
export type JobView = z.infer<typeof JobView>;

export const Submit = z.strictObject({
  kind: z.string().min(1).max(64),
  payload: z.record(z.string(), z.unknown()),
  queue: z.string().min(1).max(64).default("default"),
  owner: z.string().min(1).max(160).optional().describe("Default: the caller"),
  priority: z.int().min(1).max(100).default(50).describe("Smaller is more urgent"),
  delayMs: z
    .int()
    .min(0)
    .max(30 * 86_400_000)
    .default(0),
  idempotencyKey: z.string().min(1).max(200).optional(),
  attemptsMax: z.int().min(1).max(20).default(3),
  backoffMs: z.int().min(0).max(3_600_000).default(2_000),
  timeoutMs: z.int().min(1_000).max(86_400_000).default(3_600_000),
  stallMs: z.int().min(1_000).max(3_600_000).default(300_000),
  requires: z.object({ gpu: z.boolean().optional() }).default({}),
  onSettled: z
    .object({ action: z.string(), params: z.record(z.string(), z.unknown()) })
    .optional()
    .describe("For services only: action called at least once after the end, with { job, params }"),
});

const AttemptRef = { jobId: JobId, attempt: z.int().min(1), node: z.string(), boot: z.string() };

/** Operators; everybody else submits through an action that checks what he may. */
const access = ["admin"] as const;

export const schedulerContract = defineContract({
  name: "scheduler",
  about: "Durable jobs",
  leaderHosted: true,
  actions: {
    submit: action({
      summary: "Accept a job; it is on disk before the answer",
      rest: "POST /admin/scheduler/jobs",
      access,
      input: Submit,
      output: JobView.extend({
        repeated: z
          .boolean()
          .describe("The idempotency key was used before: this is the earlier job"),
      }),
      errors: ["QUEUE_FULL", "IDEMPOTENCY_MISMATCH"],
    }),
    get: action({
      summary: "One job",
      rest: "GET /admin/scheduler/jobs/{id}",
      access,
      input: z.object({ id: JobId }),
      output: JobView,
      errors: ["JOB_NOT_FOUND"],
      idempotent: true,
    }),
    list: action({
      summary: "Jobs, newest first",
      rest: "GET /admin/scheduler/jobs",
      access,
      input: z.object({
        state: z.enum(jobStates).optional(),
        kind: z.string().optional(),
        queue: z.string().optional(),
        owner: z.string().optional(),
        after: z.string().optional(),
        limit: z.int().min(1).max(500).default(50),
      }),
      output: z.object({ jobs: z.array(JobView), next: z.string().optional() }),
      idempotent: true,
    }),
    log: action({
      summary: "Log of a job, oldest first",
      rest: "GET /admin/scheduler/jobs/{id}/log",
      access,
      input: z.object({
        id: JobId,
        after: z.int().min(0).default(0),
        limit: z.int().min(1).max(1000).default(200),
      }),
      output: z.object({
        lines: z.array(
          z.object({
            seq: z.int(),
            at: z.int(),
            attempt: z.int(),
            level: z.enum(["info", "warn", "error"]),
            text: z.string(),
          }),
        ),
      }),
      idempotent: true,
    }),
    cancel: action({
      summary: "Stop a job; safe to repeat",
      rest: "POST /admin/scheduler/jobs/{id}/cancel",
      access,
      input: z.object({ id: JobId, reason: z.string().max(200).default("") }),
      output: JobView,
      errors: ["JOB_NOT_FOUND", "JOB_ENDED"],
      idempotent: true,
    }),
    retry: action({
      summary: "Run a failed or cancelled job again",
      rest: "POST /admin/scheduler/jobs/{id}/retry",
      access,
      input: z.object({ id: JobId }),
      output: JobView,
      errors: ["JOB_NOT_FOUND", "CONFLICT"],
    }),
    pause: action({
      summary: "Place no more jobs of a queue",
      rest: "POST /admin/scheduler/queues/{queue}/pause",
      access,
      input: z.object({ queue: z.string() }),
      output: z.object({ queue: z.string(), paused: z.boolean() }),
      idempotent: true,
    }),
    resume: action({
      summary: "Place jobs of a queue again",
      rest: "POST /admin/scheduler/queues/{queue}/resume",
      access,
      input: z.object({ queue: z.string() }),
      output: z.object({ queue: z.string(), paused: z.boolean() }),
      idempotent: true,
    }),
    stats: action({
      summary: "Jobs by queue and state, paused queues",
      rest: "GET /admin/scheduler/stats",
      access,
      input: z.object({}),
      output: z.object({
        queues: z.record(z.string(), z.record(z.enum(jobStates), z.int())),
        paused: z.array(z.string()),
      }),
      idempotent: true,
    }),
    nodes: action({
      summary: "Compose nodes and their load",
      rest: "GET /admin/scheduler/nodes",
      access,
      input: z.object({}),
      output: z.object({
        nodes: z.array(
          z.object({
            node: z.string(),
            boot: z.string(),
            kinds: z.array(z.string()),
            slots: z.int(),
            used: z.int(),
            cpuPercent: z.number(),
            memoryPercent: z.number(),
            gpu: z.object({ count: z.int(), idle: z.int(), usedPercent: z.number() }),
            draining: z.boolean(),
            lastSeenMs: z.int().describe("Milliseconds since its last heartbeat"),
          }),
        ),
      }),
      idempotent: true,
    }),

    // What compose nodes say; internal.
    heartbeat: action({
      summary: "A node reports its load and attempts, and hears which leases go on",
      input: z.object({
        report: z.object({
          node: z.string(),
          boot: z.string(),
          beat: z.int().optional().describe("Rises with each report of this run"),
          kinds: z.array(z.string()),
          slots: z.int().min(0),
          cpuPercent: z.number(),
          memoryPercent: z.number(),
          gpu: z.object({ count: z.int(), idle: z.int(), usedPercent: z.number() }),
          draining: z.boolean(),
        }),
        attempts: z.array(
          z.object({
            jobId: JobId,
            attempt: z.int(),
            progress: z.number(),
            stage: z.string().optional(),
          }),
        ),
      }),
      output: z.object({
        renewed: z.array(z.object({ jobId: JobId, attempt: z.int(), leaseMs: z.int() })),
        fenced: z.array(
          z.object({
            jobId: JobId,
            attempt: z.int(),
            reason: z.enum(["superseded", "cancelled", "unknown", "timeout", "stalled"]),
          }),
        ),
      }),
    }),
    complete: action({
      summary: "An attempt has its output; the first one of the current attempt wins",
      input: z.object({
        ...AttemptRef,
        result: z.object({
          hash: z.string(),
          outputs: z.array(
            z.object({
              bucket: z.string(),
              key: z.string(),
              bytes: z.int(),
              contentType: z.string(),
              role: z.string(),
            }),
          ),
          info: z.record(z.string(), z.unknown()),
        }),
      }),
      output: z.object({ outcome: z.enum(["committed", "fenced"]) }),
      idempotent: true,
    }),
    fail: action({
      summary: "An attempt ended with an error",
      input: z.object({ ...AttemptRef, error: ErrorView, retryable: z.boolean() }),
      output: z.object({ outcome: z.enum(["recorded", "fenced"]) }),
      idempotent: true,
    }),
    handBack: action({
      summary:
        "A node gives up attempts without an error (drain, restart); costs the job no attempt",
      input: z.object({
        node: z.string(),
        boot: z.string(),
        attempts: z.array(z.object({ jobId: JobId, attempt: z.int() })),
        cause: z.enum(["drain", "restart"]),
      }),
      output: z.object({ returned: z.int() }),
      idempotent: true,
    }),
    addLog: action({
      summary: "Lines for the log of a job",
      input: z.object({
        jobId: JobId,
        attempt: z.int(),
        lines: z
          .array(
            z.object({
              at: z.int(),
              level: z.enum(["info", "warn", "error"]),
              text: z.string().max(4000),
            }),
          )
          .max(200),
      }),
      output: z.object({}),
    }),
  },
});

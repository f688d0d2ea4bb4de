import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";
import { JobAnswer } from "../compose/bridge.answer.ts";
import { Accepted, TimelineTask } from "../compose/bridge.contract.ts";
import { JobId } from "../scheduler/scheduler.contract.ts";
import { mcpLimits } from "./config.ts";

const access = ["agent", "admin"] as const;
const job_id = JobId.describe("The job_id that compose_timeline_ffmpeg gave");

/** What agents do with renders. Each action is one tool of the MCP interface, in both of its forms. */
export const agentToolsContract = defineContract({
  name: "tools",
  about: "Tools of AI agents",
  actions: {
    compose: action({
      summary: "Render a timeline for an agent",
      access,
      input: TimelineTask,
      output: Accepted,
      errors: ["TIMELINE_INVALID", "MEDIA_UNREADABLE", "QUEUE_FULL", "IDEMPOTENCY_MISMATCH"],
      mcp: {
        tool: "compose_timeline_ffmpeg",
        title: "Render a video",
        description: [
          "Render a video from a timeline of clips, captions, transitions, voice and music.",
          "Returns a job_id at once; the render runs in the background. Follow it with jobs_wait or jobs_get until status is success, then use media_url; look at it with preview_job.",
          "The timeline is checked completely before anything starts: an error names the field and says what would be right.",
          "Read the resource reelmesh://guide/timeline for the format with a complete example.",
          "With run_id, the agent app run gets media_url and status when the render ends. With the same idempotency_key, a repeated call returns the first job instead of a second one.",
        ].join(" "),
      },
    }),
    job: action({
      summary: "State of an agent's job",
      access,
      input: z.strictObject({ job_id }),
      output: JobAnswer,
      errors: ["JOB_NOT_FOUND"],
      idempotent: true,
      mcp: {
        tool: "jobs_get",
        title: "State of a job",
        description:
          "State of a render job: status (pending, running, success, failed, cancelled), progress from 0 to 1, the error if it failed, and after success media_url and all outputs. Answers at once; to wait for the end, use jobs_wait.",
        readOnly: true,
      },
    }),
    wait: action({
      summary: "Wait until a job has ended, or the time is over",
      access,
      input: z.strictObject({
        job_id,
        timeout_seconds: z
          .number()
          .min(0)
          .max(mcpLimits.waitSecondsMax)
          .default(mcpLimits.waitSecondsDefault)
          .describe("Longest time to wait"),
      }),
      output: JobAnswer.extend({
        ended: z.boolean().describe("false: the job still runs; call jobs_wait again"),
      }),
      errors: ["JOB_NOT_FOUND"],
      idempotent: true,
      timeoutMs: (mcpLimits.waitSecondsMax + 15) * 1000,
      mcp: {
        tool: "jobs_wait",
        title: "Wait for a job",
        description: `Wait until a render job has ended and return its state. Waits at most timeout_seconds (up to ${mcpLimits.waitSecondsMax}) and then returns the state so far with ended: false; call it again to go on waiting. Reports progress while it waits.`,
        readOnly: true,
      },
    }),
    cancel: action({
      summary: "Stop an agent's job",
      access,
      input: z.strictObject({ job_id, reason: z.string().max(200).default("") }),
      output: JobAnswer,
      errors: ["JOB_NOT_FOUND", "JOB_ENDED"],
      idempotent: true,
      mcp: {
        tool: "jobs_cancel",
        title: "Cancel a job",
        description:
          "Stop a render job that is pending or running. Nothing of it remains and it is not tried again. Safe to repeat. A job that has already ended as success or failed cannot be cancelled.",
        destructive: true,
      },
    }),
    preview: action({
      summary: "Contact sheet of a finished video",
      access,
      timeoutMs: mcpLimits.sheetMs + 15_000,
      input: z.strictObject({ job_id }),
      output: z.object({
        job_id: JobId,
        times_ms: z
          .array(z.int())
          .describe("Time of each picture, row by row from the top left, in milliseconds"),
        columns: z.int().describe("Pictures in a row"),
        duration_ms: z.int().optional(),
        media_url: z.string().optional(),
        image_url: z.string().describe("The image as a file"),
        image: z
          .object({ data: z.string(), mimeType: z.string() })
          .optional()
          .describe("Absent where it is too large for an answer: use image_url"),
      }),
      errors: ["JOB_NOT_FOUND", "CONFLICT", "NOT_FOUND", "UNAVAILABLE"],
      idempotent: true,
      mcp: {
        tool: "preview_job",
        title: "See a rendered video",
        description:
          "See what a finished render looks like: returns a contact sheet of its frames as an image, with the time of each frame. Use it to check framing, captions and order before you hand the video over. The job must have status success.",
        readOnly: true,
        image: "image",
      },
    }),
  },
});

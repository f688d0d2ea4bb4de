import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";
import { jobStates } from "../scheduler/job.types.ts";
import { JobId } from "../scheduler/scheduler.contract.ts";
import { JobAnswer } from "./bridge.answer.ts";
import { ComposePayload } from "./compose.payload.ts";
import { EnhancePayload } from "./enhance.payload.ts";
import { TimelineRequest } from "./timeline/timeline.schema.ts";

const access = ["bridge", "admin"] as const;

/** What every task may carry beside its work. */
const taskFields = {
  idempotency_key: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("A repeated request with the same key gets the first job; header Idempotency-Key"),
  priority: z.int().min(1).max(100).default(50).describe("Smaller is more urgent"),
  run_id: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe("Agent app run whose media_url and status are set when the job ends"),
};

/** A timeline to render: body of the bridge's route and arguments of the agents' tool. */
export const TimelineTask = TimelineRequest.extend(taskFields);

/** Media to show one after another. */
export const ComposeTask = ComposePayload.extend(taskFields);

/** A video or image to upscale. */
export const EnhanceTask = EnhancePayload.safeExtend(taskFields);

export const Accepted = z.object({
  job_id: JobId,
  status: z.enum(jobStates),
  repeated: z
    .boolean()
    .describe("true: the idempotency key was used before and this is the earlier job"),
});

/** The composition bridge (operations document, section 4). Names and paths are its own, without the envelope. */
export const bridgeContract = defineContract({
  name: "bridge",
  about: "Composition bridge",
  actions: {
    composeTimeline: action({
      summary: "Render a timeline",
      description:
        "The timeline is checked as far as can be known at once; then the job is on disk before its id is answered.",
      rest: "POST /compose-timeline-ffmpeg",
      form: "plain",
      access,
      input: TimelineTask,
      output: Accepted,
      errors: ["TIMELINE_INVALID", "MEDIA_UNREADABLE", "QUEUE_FULL", "IDEMPOTENCY_MISMATCH"],
    }),
    compose: action({
      summary: "Make a video of media one after another, with voice, music and subtitles",
      rest: "POST /compose",
      form: "plain",
      access,
      input: ComposeTask,
      output: Accepted,
      errors: ["MEDIA_UNREADABLE", "QUEUE_FULL", "IDEMPOTENCY_MISMATCH"],
    }),
    enhance: action({
      summary: "Upscale and clean a video or an image",
      rest: "POST /enhance",
      form: "plain",
      access,
      input: EnhanceTask,
      output: Accepted,
      errors: ["MEDIA_UNREADABLE", "QUEUE_FULL", "IDEMPOTENCY_MISMATCH"],
    }),
    job: action({
      summary: "State of a job; the link to its output once it has succeeded",
      rest: "GET /jobs/{job_id}",
      form: "plain",
      access,
      input: z.object({ job_id: JobId }),
      output: JobAnswer,
      errors: ["JOB_NOT_FOUND"],
      idempotent: true,
    }),
  },
});

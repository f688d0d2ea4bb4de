import { z } from "zod";
import { schedulerContract } from "../../scheduler/scheduler.contract.ts";
import { Bucket, ObjectKey } from "../../storage/storage.contract.ts";
import { standaloneLimits } from "../config.ts";

/**
 * What a scheduler and a bridge outside the mesh say to each other over HTTP. The scheduler asks and the bridge
 * answers, since the bridge may be the only one of the two that can be reached. Shapes that the mesh knows too are
 * taken from the scheduler's contract.
 */

const heartbeat = schedulerContract.actions.heartbeat.input.shape;
const complete = schedulerContract.actions.complete.input.shape;
const fail = schedulerContract.actions.fail.input.shape;

const jobId = complete.jobId;
const attempt = complete.attempt;
const boot = complete.boot.min(1).max(100);
const reason = z.string().max(2_000);
const { questionsMax, inputsMax, slotsMax } = standaloneLimits;

/** Where each kind of work is sent; the first three are the documented routes of a composition bridge. */
export const routeOfKind: Readonly<Record<string, string>> = {
  timeline: "/compose-timeline-ffmpeg",
  compose: "/compose",
  enhance: "/enhance",
  "contact-sheet": "/contact-sheet",
  noop: "/noop",
};

/** Header that names the installation that a scheduler speaks for, so that two of them do not share a bridge. */
export const installationHeader = "x-reelmesh-installation";
export const Installation = z.string().regex(/^[\w-]{8,64}$/);

/** Beside the fields of the task itself, in the body of the routes above, under the name `attempt`. */
export const AttemptFields = z.object({
  job_id: jobId,
  number: attempt,
  lease_ms: z.int().min(1),
  boot: boot.describe("The run of the bridge that the order is for; another run refuses it"),
  owner: z.string().max(200),
  trace: z.string().max(200).optional().describe("W3C traceparent of the job"),
  bucket: Bucket.describe("Where the outputs belong, and what plain keys mean"),
  inputs: z
    .array(z.object({ bucket: Bucket, key: ObjectKey, url: z.string().max(8_192) }))
    .max(inputsMax)
    .describe("Signed links to the objects that the task names"),
});

/** An attempt with its task. */
export interface AttemptOrder {
  kind: string;
  payload: Record<string, unknown>;
  attempt: z.output<typeof AttemptFields>;
}

/** `attempt` repeats what was understood: a bridge that does not send it knows no leases. */
export const AttemptAnswer = z.object({
  job_id: jobId,
  status: z.enum(["running", "refused"]),
  repeated: z.boolean(),
  attempt: z.object({ number: attempt, boot }),
  reason: reason.optional(),
});
export type AttemptAnswer = z.output<typeof AttemptAnswer>;

const key = { id: z.string().min(1).max(400), jobId, attempt };

/** Something that the bridge wants to know or to have done; it stays open until it is answered. */
export const Question = z.discriminatedUnion("type", [
  z.object({ ...key, type: z.literal("complete") }),
  z.object({ ...key, type: z.literal("fail") }),
  z.object({
    id: key.id,
    type: z.literal("handBack"),
    boot: boot.describe("The run that held the attempts"),
    cause: z.enum(["drain", "restart"]),
    attempts: z.array(z.object({ jobId, attempt })).max(questionsMax),
  }),
  z.object({ ...key, type: z.literal("isCommitted") }),
  z.object({ ...key, type: z.literal("discardOutput") }),
  z.object({
    ...key,
    type: z.literal("uploadLink"),
    name: z.string().regex(/^\w[\w.-]{0,200}$/),
    bytes: z.int().min(0),
    md5: z.string().max(24),
  }),
  z.object({ ...key, type: z.literal("addLog") }),
]);
export type Question = z.output<typeof Question>;

/** Answer of `GET /status`: what a node of the mesh says in a heartbeat, and what it would call. */
export const BridgeStatus = heartbeat.report.omit({ node: true, beat: true }).extend({
  protocol: z.literal(1),
  boot,
  beat: z.int(),
  asked: z.int().min(0).describe("Questions asked so far in this run"),
  slots: z.int().min(0).max(slotsMax),
  mark: z
    .number()
    .describe("The bridge's own clock at this answer, in milliseconds: leases are counted from it"),
  attempts: z.array(heartbeat.attempts.element.extend({ stage: z.string().max(200).optional() })),
  questions: z.array(Question).max(questionsMax),
});
export type BridgeStatus = z.output<typeof BridgeStatus>;

/** Query of `GET /status`: the answer may wait for a question that the scheduler has not seen. */
export const StatusQuery = z.object({
  asked: z.coerce.number().pipe(z.int().min(0)).optional().describe("As in the last answer"),
  wait_ms: z.coerce.number().pipe(z.int().min(0).max(standaloneLimits.statusWaitMsMax)).default(0),
});
export type StatusQuery = z.output<typeof StatusQuery>;

/** Query of `GET /jobs/{job_id}` for an attempt; with `mark` it renews the lease. */
export const AttemptQuery = z.object({
  job_id: jobId,
  attempt: z.coerce.number().pipe(attempt),
  boot: boot.optional(),
  mark: z.coerce.number().optional(),
  lease_ms: z.coerce.number().int().min(0).optional(),
});
export type AttemptQuery = z.output<typeof AttemptQuery>;

/** What a bridge knows of an attempt. An end is told until it is answered. */
export const AttemptView = z.object({
  job_id: jobId,
  attempt,
  boot,
  status: z.enum(["unknown", "running", "success", "failed"]),
  renewed: z.boolean().describe("Whether the lease goes on from the mark in the query"),
  progress: z.number().min(0).max(1),
  stage: z.string().max(200).optional(),
  result: complete.result.optional(),
  error: fail.error.optional(),
  retryable: z.boolean().optional(),
  log: schedulerContract.actions.addLog.input.shape.lines.optional(),
});
export type AttemptView = z.output<typeof AttemptView>;

/** The scheduler's word on a report; see `ReportAnswer` of the node's ports. */
const ReportWord = z.union([
  z.enum(["taken", "fenced"]),
  z.object({ invalid: fail.error.extend({ message: reason }) }),
]);

/** Body of `POST /answers`. */
export const BridgeAnswer = z.object({
  boot,
  id: key.id,
  word: ReportWord.optional(),
  committed: z.boolean().optional(),
  url: z.string().max(8_192).optional(),
  failed: reason.optional().describe("What was asked for cannot be done now"),
});
export type BridgeAnswer = z.output<typeof BridgeAnswer>;

/** Body of `POST /jobs/{job_id}/cancel`. */
export const CancelAttempt = z.object({ job_id: jobId, attempt, reason: z.string().max(200) });
export type CancelAttempt = z.output<typeof CancelAttempt>;

import { buffer } from "node:stream/consumers";
import { z } from "zod";
import { AppError } from "../../lib/errors.ts";
import type { ActionContext } from "../../lib/service.ts";
import { answerFor, jobFor } from "../compose/bridge.answer.ts";
import { mcpLimits } from "./config.ts";

/** What a render notes of its contact sheet beside the picture itself. */
const SheetInfo = z.object({
  timesMs: z.array(z.number()),
  columns: z.int().min(0).default(0),
});

/** The contact sheet of a finished job as an image, small enough for one message. */
export async function previewOf(ctx: ActionContext<{ job_id: string }>) {
  const { job_id } = ctx.params;
  const job = await jobFor(job_id, ctx.meta.actor, ctx.call);
  if (job.state !== "success")
    throw new AppError("CONFLICT", {
      reason: `job ${job_id} is ${job.state}${job.error ? ` (${job.error.message})` : ""}; a preview needs status success${job.state === "running" || job.state === "pending" ? ": wait with jobs_wait" : ""}`,
    });
  const sheet = job.result?.outputs.find(({ role }) => role === "contact-sheet");
  if (!sheet) throw new AppError("NOT_FOUND", { what: `A contact sheet of job ${job_id}` });
  if (sheet.bytes > mcpLimits.imageBytes)
    throw new AppError("PAYLOAD_TOO_LARGE", { limit: `${mcpLimits.imageBytes} bytes` });
  const { bucket, key } = sheet;
  const stream = await ctx.call("storage.read", { bucket, key });
  const info = SheetInfo.safeParse(job.result?.info["contactSheet"]).data;
  const { media_url } = await answerFor(job, ctx.call);
  return {
    job_id,
    times_ms: info?.timesMs ?? [],
    columns: info?.columns ?? 0,
    media_url,
    image: { data: (await buffer(stream)).toString("base64"), mimeType: sheet.contentType },
  };
}

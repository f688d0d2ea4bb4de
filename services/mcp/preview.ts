import { buffer } from "node:stream/consumers";
import { z } from "zod";
import { AppError } from "../../lib/errors.ts";
import type { ActionContext, ServiceHost } from "../../lib/service.ts";
import { hasEnded, jobFor } from "../compose/bridge.answer.ts";
import { planSheet, sheetGrid } from "../compose/media/contact-sheet.plan.ts";
import type { JobView } from "../scheduler/scheduler.contract.ts";
import { mcpLimits } from "./config.ts";

type Output = NonNullable<JobView["result"]>["outputs"][number];

/** What a render notes of its result: enough to know which frames are on its sheet. */
const Measured = z.object({
  frames: z.int().min(1),
  durationMs: z.number().min(0),
  width: z.number().min(1),
  height: z.number().min(1),
});

/** The sheet of a video, or the picture itself where the job made one. */
function pictureOf({ result }: JobView): Output | undefined {
  const outputs = result?.outputs ?? [];
  return (
    outputs.find(({ role }) => role === "contact-sheet") ??
    outputs.find(({ contentType }) => contentType.startsWith("image/"))
  );
}

function timesOf(job: JobView, picture: Output) {
  const measured = Measured.safeParse(job.result?.info).data;
  if (!measured || picture.role !== "contact-sheet") return { times_ms: [0], columns: 1 };
  const { tiles, columns } = planSheet(measured, { ...sheetGrid, pixelsMax: 1 });
  return {
    times_ms: tiles.map(({ ms }) => ms),
    columns,
    duration_ms: Math.round(measured.durationMs),
  };
}

/** The contact sheet of a finished job as an image. */
export async function previewOf(
  { params, meta, call }: ActionContext<{ job_id: string }>,
  { config }: ServiceHost,
) {
  const job = await jobFor(params.job_id, meta.actor, call);
  if (job.state !== "success") {
    const advice = hasEnded(job.state)
      ? `it will never have one${job.error ? ` (${job.error.message})` : ""}`
      : "wait for it with jobs_wait";
    throw new AppError("CONFLICT", {
      reason: `a preview needs a job with status success; this one is ${job.state}, ${advice}`,
    });
  }
  const picture = pictureOf(job);
  if (!picture)
    throw new AppError("NOT_FOUND", { what: `A picture among the outputs of job ${job.id}` });
  const { bucket, key } = picture;
  const media = job.result?.outputs.find(({ role }) => role === "media");
  const [link, mediaLink] = await Promise.all([
    call("storage.link", { bucket, key }),
    media && call("storage.link", { bucket: media.bucket, key: media.key }),
  ]);
  const limit = config.TRANSPORTER ? mcpLimits.meshImageBytes : mcpLimits.localImageBytes;
  const data =
    picture.bytes <= limit
      ? (await buffer(await call("storage.read", { bucket, key }))).toString("base64")
      : undefined;
  return {
    job_id: job.id,
    ...timesOf(job, picture),
    media_url: mediaLink?.url,
    image_url: link.url,
    image: data === undefined ? undefined : { data, mimeType: picture.contentType },
  };
}

import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { AppError } from "../../lib/errors.ts";
import type { ActionContext, ServiceHost } from "../../lib/service.ts";
import { hasEnded, jobFor, ownerOf } from "../compose/bridge.answer.ts";
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

/**
 * A render that has no sheet gets one by a job of its own. The key makes that one job, however often the
 * preview is asked for.
 */
async function makeSheet(
  { meta, call }: ActionContext<unknown>,
  job: JobView,
): Promise<JobView | undefined> {
  const video = job.result?.outputs.find(({ contentType }) => contentType.startsWith("video/"));
  if (!video) return undefined;
  const submitted = await call("scheduler.submit", {
    kind: "contact-sheet",
    payload: { bucket: video.bucket, key: video.key },
    owner: ownerOf(meta.actor),
    priority: 10,
    attemptsMax: 2,
    idempotencyKey: `contact-sheet:${job.id}`,
  });
  const deadline = performance.now() + mcpLimits.sheetMs;
  for (;;) {
    const sheet = await call("scheduler.get", { id: submitted.id });
    if (sheet.state === "success") return sheet;
    const { error } = sheet;
    if (hasEnded(sheet.state))
      throw new AppError("UNAVAILABLE", {
        reason: `no contact sheet could be made${error ? ` (${error.message})` : ""}`,
      });
    if (performance.now() > deadline)
      throw new AppError("UNAVAILABLE", {
        reason: "its contact sheet is still being made; call preview_job again",
      });
    await sleep(mcpLimits.waitPollMs);
  }
}

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
export async function previewOf(ctx: ActionContext<{ job_id: string }>, { config }: ServiceHost) {
  const { params, meta, call } = ctx;
  const job = await jobFor(params.job_id, meta.actor, call);
  if (job.state !== "success") {
    const advice = hasEnded(job.state)
      ? `it will never have one${job.error ? ` (${job.error.message})` : ""}`
      : "wait for it with jobs_wait";
    throw new AppError("CONFLICT", {
      reason: `a preview needs a job with status success; this one is ${job.state}, ${advice}`,
    });
  }
  const shown = pictureOf(job) ? job : await makeSheet(ctx, job);
  const picture = shown && pictureOf(shown);
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
    ...timesOf(shown, picture),
    media_url: mediaLink?.url,
    image_url: link.url,
    image: data === undefined ? undefined : { data, mimeType: picture.contentType },
  };
}

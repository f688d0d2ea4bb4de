import { z } from "zod";
import type { JobKind } from "../scheduler/job.types.ts";
import { ComposePayload } from "./compose.payload.ts";
import { ContactSheetPayload } from "./contact-sheet.payload.ts";
import { EnhancePayload } from "./enhance.payload.ts";
import { TimelineRequest } from "./timeline/timeline.schema.ts";

export const noopPayload = z.strictObject({
  ms: z.int().min(0).max(86_400_000).default(0).describe("How long it takes"),
  output: z.string().max(100_000).optional().describe("Text that it stores as its output"),
});

/**
 * Every kind of job with the schema of its payload. The scheduler checks what it accepts against this list, so
 * nothing here may pull in an executor.
 */
export const executorKinds: Readonly<Record<JobKind, z.ZodType>> = {
  noop: noopPayload,
  timeline: TimelineRequest,
  compose: ComposePayload,
  enhance: EnhancePayload,
  "contact-sheet": ContactSheetPayload,
};

import { z } from "zod";
import { AppError } from "../../lib/errors.ts";
import { describeIssues } from "../../lib/issues.ts";

/** A job that does nothing but wait: for trials and benchmarks. */
export const NoopPayload = z.strictObject({
  ms: z.int().min(0).max(3_600_000).default(0).describe("How long it takes, milliseconds"),
  fail: z.string().max(200).optional().describe("It ends with this error instead"),
});

/** Kinds of jobs and what their payload must look like. */
export type JobKinds = Readonly<Record<string, z.ZodType>>;

export const builtInKinds: JobKinds = { noop: NoopPayload };

/**
 * Checks a payload before the job is accepted; defaults are filled in.
 * @throws AppError JOB_KIND_UNKNOWN, INVALID_INPUT
 */
export function checkPayload(
  kinds: JobKinds,
  kind: string,
  payload: Record<string, unknown>,
): Record<string, unknown> {
  const schema = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  if (!schema) throw new AppError("JOB_KIND_UNKNOWN", { kind, known: Object.keys(kinds).sort() });
  const parsed = schema.safeParse(payload);
  if (parsed.success) return parsed.data as Record<string, unknown>;
  const issues = describeIssues(parsed.error).map(({ path, message }) => ({
    path: path ? `payload.${path}` : "payload",
    message,
  }));
  throw new AppError("INVALID_INPUT", {
    reason: issues.map(({ path, message }) => `${path}: ${message}`).join("; "),
    issues,
  });
}

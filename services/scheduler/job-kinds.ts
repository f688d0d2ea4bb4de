import { AppError } from "../../lib/errors.ts";
import { describeIssues } from "../../lib/issues.ts";
import { executorKinds } from "../compose/executor-kinds.ts";

/**
 * Checks a payload before the job is accepted; defaults are filled in.
 * @throws AppError JOB_KIND_UNKNOWN, INVALID_INPUT
 */
export function checkPayload(
  kind: string,
  payload: Record<string, unknown>,
): Record<string, unknown> {
  const schema = Object.hasOwn(executorKinds, kind) ? executorKinds[kind] : undefined;
  if (!schema)
    throw new AppError("JOB_KIND_UNKNOWN", { kind, known: Object.keys(executorKinds).sort() });
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

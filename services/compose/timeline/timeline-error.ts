import { AppError } from "../../../lib/errors.ts";

/** A timeline that contradicts itself or its sources; `path` is the clip or field as the client wrote it. */
export const timelineError = (path: string, reason: string): AppError =>
  new AppError("TIMELINE_INVALID", { reason: `${path}: ${reason}`, path });

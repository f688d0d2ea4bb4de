import type { JobKind } from "../scheduler/job.types.ts";
import { composeExecutor } from "./compose.executor.ts";
import { contactSheetExecutor } from "./contact-sheet.executor.ts";
import { enhanceExecutor } from "./enhance.executor.ts";
import type { Executor } from "./executor.ts";
import { noopExecutor } from "./noop.executor.ts";
import { timelineExecutor } from "./timeline.executor.ts";

/** What this build of a compose node can do, by kind. Its payload schemas are in `executor-kinds.ts`. */
export const executors: Readonly<Record<JobKind, Executor>> = Object.fromEntries(
  [noopExecutor, timelineExecutor, composeExecutor, enhanceExecutor, contactSheetExecutor].map(
    (executor) => [executor.kind, executor as unknown as Executor],
  ),
);

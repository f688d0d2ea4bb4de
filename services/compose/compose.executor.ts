import { AppError } from "../../lib/errors.ts";
import { describeIssues } from "../../lib/issues.ts";
import { ComposePayload } from "./compose.payload.ts";
import { composeTimeline } from "./compose.plan.ts";
import type { Executor } from "./executor.ts";
import { TimelineRequest } from "./timeline/timeline.schema.ts";
import { timelineExecutor } from "./timeline.executor.ts";

/** Renders a simple composition as the timeline that it stands for (operations document, section 4: `/compose`). */
export const composeExecutor: Executor<typeof ComposePayload> = {
  kind: "compose",
  payload: ComposePayload,
  async execute(task, tools) {
    const request = TimelineRequest.safeParse(composeTimeline(task));
    if (!request.success) {
      const issues = describeIssues(request.error);
      const reason = issues.map(({ path, message }) => `${path}: ${message}`).join("; ");
      throw new AppError("TIMELINE_INVALID", { reason, issues });
    }
    return timelineExecutor.execute(request.data, tools);
  },
};

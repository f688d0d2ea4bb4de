import type { Job } from "./job.types.ts";
import type { JobView } from "./scheduler.contract.ts";

/** A job as clients see it: no payload, no lease, no boot id. */
export function viewOf(job: Job): JobView {
  const { spec, history } = job;
  return {
    id: spec.id,
    kind: spec.kind,
    queue: spec.queue,
    owner: spec.owner,
    state: job.state,
    priority: spec.priority,
    progress: history.progress,
    stage: job.state === "running" ? history.stage : undefined,
    attempt: history.attempt,
    errors: history.errors,
    nodesLost: history.nodesLost,
    node: job.state === "running" ? job.node : history.lastNode,
    createdAt: spec.createdAt,
    readyAt: job.state === "pending" ? job.readyAt : undefined,
    startedAt: history.startedAt,
    endedAt: "endedAt" in job ? job.endedAt : undefined,
    error: job.state === "failed" ? job.error : undefined,
    lastError: history.lastError,
    result: job.state === "success" ? job.result : undefined,
  };
}

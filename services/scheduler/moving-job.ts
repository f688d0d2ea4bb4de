import type { Job } from "./job.types.ts";
import type { JobLogLine, OutboxEntry } from "./job-store.ts";

/** A job with all that belongs to it, on its way from one store to another. */
export interface MovingJob {
  job: Job;
  /** Rises with each job in the order of arrival, which lists show. */
  place: number;
  /** Lines by rising `seq`, which callers that follow a log go by. */
  log: readonly (JobLogLine & { seq: number })[];
  outbox: readonly OutboxEntry[];
}

/** What became of the jobs that a store was given. */
export interface TakenOver {
  /** Ids of jobs that are stored now and were not before. */
  added: string[];
  /** Jobs that another job there keeps out: by its idempotency key. */
  refused: { id: string; by: string }[];
}

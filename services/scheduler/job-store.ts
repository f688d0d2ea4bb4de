import type { Job, JobState, Ms } from "./job.types.ts";

export interface JobQuery {
  state?: JobState;
  kind?: string;
  queue?: string;
  owner?: string;
  /** Newest first; opaque mark of the last row of the page before. */
  after?: string;
  limit: number;
}

export interface JobLogLine {
  at: Ms;
  attempt: number;
  level: "info" | "warn" | "error";
  text: string;
}

/** A message that must reach an action at least once, written in the same commit as its cause. */
export interface OutboxEntry {
  id: string;
  jobId: string;
  action: string;
  params: Record<string, unknown>;
}

/** A new version of a job, stored only if the stored version is still `expectedVersion`. */
export interface JobChange {
  next: Job;
  /** 0: the job must be new. */
  expectedVersion: number;
  log?: JobLogLine[];
  outbox?: OutboxEntry[];
}

export type ChangeResult =
  | { stored: true }
  /** Somebody else was first, or the idempotency key exists: `current` is what is stored. */
  | { stored: false; current: Job | undefined };

/**
 * Port of the durable job store. Every answer means "on disk"; adapters batch by themselves. Adapters: memory
 * (simulation), SQLite, MongoDB; all pass `test/support/job-store.suite.ts`.
 */
export interface JobStore {
  change(change: JobChange): Promise<ChangeResult>;
  get(id: string): Promise<Job | undefined>;
  findByIdempotencyKey(owner: string, key: string): Promise<Job | undefined>;
  list(query: JobQuery): Promise<{ jobs: Job[]; next?: string }>;
  counts(): Promise<Record<string, Record<JobState, number>>>;
  /** All pending and running jobs, for the index in memory after a start. */
  active(): AsyncIterable<Job>;
  appendLog(jobId: string, lines: JobLogLine[]): Promise<void>;
  readLog(
    jobId: string,
    options: { after?: number; limit: number },
  ): Promise<{ lines: (JobLogLine & { seq: number })[] }>;
  outboxPending(limit: number): Promise<OutboxEntry[]>;
  outboxDone(ids: readonly string[]): Promise<void>;
  setQueuePaused(queue: string, paused: boolean): Promise<void>;
  pausedQueues(): Promise<string[]>;
  close(): Promise<void>;
}

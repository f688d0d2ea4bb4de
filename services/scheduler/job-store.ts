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

/**
 * Who leads (design, section 4, rule 9). Stored once; every take-over raises the term by one, every renewal the beat.
 * Clocks of different machines are never compared: a standby takes over when it has seen the same term and beat for
 * a whole lease of its own monotonic clock.
 */
export interface Leadership {
  /** 0: nobody has led yet. */
  term: number;
  /** Name of the node that leads; empty after it has resigned. */
  holder: string;
  beat: number;
}

/** A new version of a job, stored only if the stored version is still `expectedVersion` and no later term has begun. */
export interface JobChange {
  next: Job;
  /** The writer's term. A store that knows of a later one refuses the change. */
  term: number;
  /** 0: the job must be new. */
  expectedVersion: number;
  log?: JobLogLine[];
  outbox?: OutboxEntry[];
}

export type ChangeResult =
  | { stored: true }
  /** Somebody else was first, or the idempotency key exists: `current` is what is stored. */
  | { stored: false; current: Job | undefined; deposed?: false }
  /** A later leader has taken over: the writer must stop. */
  | { stored: false; deposed: true };

/**
 * Port of the durable job store. Every answer means "on disk"; adapters batch by themselves. Adapters: memory
 * (simulation), SQLite, MongoDB; all pass `test/support/job-store.suite.ts`.
 */
export interface JobStore {
  /** No other process can have this store open: whoever led before is gone, and nobody can take over. */
  readonly exclusive?: boolean;
  change(change: JobChange): Promise<ChangeResult>;
  get(id: string): Promise<Job | undefined>;
  findByIdempotencyKey(owner: string, key: string): Promise<Job | undefined>;
  list(query: JobQuery): Promise<{ jobs: Job[]; next?: string }>;
  counts(): Promise<Record<string, Record<JobState, number>>>;
  /** All pending and running jobs, for the index in memory after a start. */
  active(): AsyncIterable<Job>;
  leadership(): Promise<Leadership>;
  /**
   * Takes over if the stored term and beat still are those of `seen`; answers the new leadership, else undefined. When
   * it answers, every change of an active job under an earlier term will be refused. A store without transactions may
   * still take a *new* job (or a retried one) that an earlier leader had under way: see `strays`.
   * With very many active jobs it may take longer than a lease: the store renews meanwhile.
   */
  takeOver(seen: Leadership, holder: string): Promise<Leadership | undefined>;
  /** Raises the beat; false: this term is over. */
  renew(term: number): Promise<boolean>;
  /** Gives the leadership back, so that a standby need not wait for the lease; does nothing if the term is over. */
  resign(term: number): Promise<void>;
  /** Active jobs whose last writer had an earlier term, raised to `term`: the leader adopts them. Stores with transactions have none. */
  strays(term: number): Promise<Job[]>;
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

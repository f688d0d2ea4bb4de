/** Milliseconds since the epoch, always given as an argument. */
export type Ms = number;

export const jobStates = ["pending", "running", "success", "failed", "cancelled"] as const;
/** Public states (design, section 4). */
export type JobState = (typeof jobStates)[number];

export interface JobError {
  /** Type from the error table. */
  type: string;
  message: string;
  data?: Record<string, unknown>;
}

/** Kinds of work that compose nodes do. Each has an executor in `services/compose/executors.ts`. */
export type JobKind = string;

/** What a node must offer to get the job. */
export interface Requirements {
  gpu?: boolean;
}

/** An action that the outbox calls at least once after the job has ended, with `{ job, params }`. */
export interface SettledCallback {
  action: string;
  params: Record<string, unknown>;
}

/** What stays the same over a job's life. */
export interface JobSpec {
  id: string;
  kind: JobKind;
  queue: string;
  /** Whose job it is, for fairness and ownership: `realm:id`. */
  owner: string;
  payload: Record<string, unknown>;
  /** 1 to 100; smaller is more urgent, as for servers in the operations document. */
  priority: number;
  createdAt: Ms;
  /** `createdAt` plus the delay that was asked for; age, which lifts the priority, counts from here. */
  dueAt: Ms;
  idempotencyKey?: string;
  /** Failed attempts allowed before the job fails for good; lost nodes are counted apart. */
  attemptsMax: number;
  /** First retry delay; doubles with each error up to `backoffMsMax`. */
  backoffMs: number;
  backoffMsMax: number;
  /** Longest time one attempt may run. */
  timeoutMs: number;
  /** Longest time without progress. */
  stallMs: number;
  requires: Requirements;
  onSettled?: SettledCallback;
  /** Place in the trace of the request that submitted it (W3C traceparent), where that is recorded. */
  trace?: string;
}

/** Counters and marks that survive from attempt to attempt. */
export interface JobHistory {
  /** Number of the latest attempt; 0 before the first. Only rises. */
  attempt: number;
  /** Attempts that ended with an error of the job itself. */
  errors: number;
  /** Attempts that ended because their node was lost. */
  nodesLost: number;
  lastError?: JobError;
  /** Node of the latest attempt; a retry prefers another. */
  lastNode?: string;
  /** 0 to 1 of the latest attempt. */
  progress: number;
  progressAt?: Ms;
  stage?: string;
  startedAt?: Ms;
  /** Rises with each stored change: the guard of every compare-and-set. */
  version: number;
}

export interface Pending {
  state: "pending";
  /** Not placed before this time. */
  readyAt: Ms;
}
export interface Running {
  state: "running";
  node: string;
  /** Identity of one run of the node's process; that of a later run sorts after it. */
  boot: string;
  leaseUntil: Ms;
  /** Start of this attempt. */
  attemptAt: Ms;
  /** The node has said that it took the attempt. */
  accepted: boolean;
}
export interface Succeeded {
  state: "success";
  endedAt: Ms;
  result: JobResult;
}
export interface Failed {
  state: "failed";
  endedAt: Ms;
  error: JobError;
}
export interface Cancelled {
  state: "cancelled";
  endedAt: Ms;
  reason: string;
  /** Where the attempt ran when it was cancelled; that node kills it. */
  stopping?: { node: string; boot: string };
}

export interface JobResult {
  /** Hash of the committed output, so that a repeated `complete` of the winner is recognised. */
  hash: string;
  outputs: { bucket: string; key: string; bytes: number; contentType: string; role: string }[];
  info: Record<string, unknown>;
}

export type Job = { spec: JobSpec; history: JobHistory } & (
  | Pending
  | Running
  | Succeeded
  | Failed
  | Cancelled
);

/** Load that a node reports with each heartbeat. */
export interface NodeReport {
  node: string;
  boot: string;
  /** Rises with each report of this run. */
  beat?: number;
  kinds: JobKind[];
  slots: number;
  /** 0 to 100. */
  cpuPercent: number;
  memoryPercent: number;
  gpu: { count: number; idle: number; usedPercent: number };
  draining: boolean;
}

/** One attempt that a node holds, as it reports it. */
export interface AttemptReport {
  jobId: string;
  attempt: number;
  progress: number;
  stage?: string;
}

/** Answer to a heartbeat. Anything that a node holds and finds in neither list has lost its lease. */
export interface HeartbeatAnswer {
  renewed: { jobId: string; attempt: number; leaseMs: number }[];
  /** Kill and clean up: superseded, cancelled, or unknown. */
  fenced: {
    jobId: string;
    attempt: number;
    reason: "superseded" | "cancelled" | "unknown" | "timeout" | "stalled";
  }[];
}

/** What is sent to a node to start an attempt. */
export interface StartOrder {
  jobId: string;
  attempt: number;
  kind: JobKind;
  payload: Record<string, unknown>;
  owner: string;
  leaseMs: number;
  boot: string;
  /** Trace of the job: every attempt, on whatever node, hangs under the same span. */
  trace?: string;
}

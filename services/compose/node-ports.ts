import type {
  AttemptReport,
  HeartbeatAnswer,
  JobError,
  JobResult,
  Ms,
  StartOrder,
} from "../scheduler/job.types.ts";

export interface AttemptKey {
  jobId: string;
  attempt: number;
}

/** A process as the operating system knows it: the number alone may have been given to another one since. */
export interface ProcessIdentity {
  pid: number;
  /** Start of the process in the system's own form; equal means the same process. */
  startMark: string;
}

/** One attempt that the node has taken and not yet settled with the scheduler. */
export interface JournalEntry extends AttemptKey {
  kind: string;
  /** Name and run of the node that took it: the lease is held under these. */
  node: string;
  boot: string;
  processes: ProcessIdentity[];
  /** Its work was stopped in good order; giving it back is no loss of a node. */
  released: boolean;
}

/**
 * Memory of the node that survives the end of its process. Each promise resolves once the change does; one of `add`
 * also survives a loss of power.
 */
export interface NodeJournal {
  add(entry: JournalEntry): Promise<void>;
  addProcess(key: AttemptKey, process: ProcessIdentity): Promise<void>;
  release(key: AttemptKey): Promise<void>;
  remove(key: AttemptKey): Promise<void>;
  entries(): JournalEntry[];
}

/** How an execution ended by itself. */
export type ExecutionOutcome =
  | { ok: true; result: JobResult }
  | { ok: false; error: JobError; retryable: boolean };

/** The scheduler's word on a report; `invalid`: it will never take this report, repeating is no use. */
export type ReportAnswer = "taken" | "fenced" | { invalid: JobError };

/** Everything that a node agent touches outside itself. Rejections mean "unknown": the agent repeats. */
export interface NodePorts {
  /** Milliseconds of a clock that never jumps. */
  nowMonotonic(): Ms;
  journal: NodeJournal;
  /**
   * Does the work. Settles only when every process of the attempt is gone, also after `signal` was aborted,
   * and within a bounded time of that.
   */
  execute(
    order: StartOrder,
    signal: AbortSignal,
    report: (progress: number, stage?: string) => void,
  ): Promise<ExecutionOutcome>;
  /** Makes sure that nothing of an attempt of an earlier run is left: processes, work directory. */
  killOrphan(entry: JournalEntry): Promise<void>;
  /** Deletes whatever the attempt has uploaded. */
  discardOutput(key: AttemptKey): Promise<void>;
  /** Is this attempt the one whose output was committed? */
  isCommitted(key: AttemptKey): Promise<boolean>;
  heartbeat(attempts: AttemptReport[], draining: boolean): Promise<HeartbeatAnswer>;
  complete(key: AttemptKey, result: JobResult): Promise<ReportAnswer>;
  fail(key: AttemptKey, error: JobError, retryable: boolean): Promise<ReportAnswer>;
  handBack(
    holder: { node: string; boot: string },
    attempts: AttemptKey[],
    cause: "drain" | "restart",
  ): Promise<void>;
  log(level: "info" | "warn" | "error", text: string): void;
  /** The agent wants `tick` at this time, instead of any time that it asked for before. */
  wakeAt(at: Ms): void;
}

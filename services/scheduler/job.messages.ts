import type { HeartbeatAnswer, Job, JobError, JobResult } from "./job.types.ts";

export type FenceReason = HeartbeatAnswer["fenced"][number]["reason"];

/** The attempt that a node speaks for. */
export interface AttemptRef {
  attempt: number;
  node: string;
  boot: string;
}

export type Claim = {
  type: "claim";
  node: string;
  boot: string;
  leaseMs: number;
  /** Why this node was chosen, for the log. */
  why?: string;
};
export type Accepted = { type: "accepted"; attempt: number };
export type Refused = { type: "refused"; attempt: number; reason: string };
export type Renew = AttemptRef & {
  type: "renew";
  leaseMs: number;
  progress: number;
  stage?: string;
};
export type Complete = AttemptRef & { type: "complete"; result: JobResult };
export type Fail = AttemptRef & {
  type: "fail";
  error: JobError;
  retryable: boolean;
  /** 0 to 1, for the jitter of the backoff. */
  random: number;
};
export type HandBack = {
  type: "handBack";
  attempt: number;
  node: string;
  cause: "drain" | "restart";
  nodesLostMax: number;
};
export type LeaseExpired = {
  type: "leaseExpired";
  attempt: number;
  /** False when the scheduler itself was away, so that the node could not renew. */
  countsAsLoss: boolean;
  nodesLostMax: number;
};
/** The node lives on under another boot id: whatever the earlier boot ran is gone. */
export type NodeGone = { type: "nodeGone"; node: string; boot: string; nodesLostMax: number };
export type Cancel = { type: "cancel"; reason: string };
export type Retry = { type: "retry" };
export type Timeout = { type: "timeout"; attempt: number; random: number };
export type Stall = { type: "stall"; attempt: number; random: number };

export type JobMessage =
  | Claim
  | Accepted
  | Refused
  | Renew
  | Complete
  | Fail
  | HandBack
  | LeaseExpired
  | NodeGone
  | Cancel
  | Retry
  | Timeout
  | Stall;

/** What must follow once the new state is on disk. `log` and `settled` are part of the same commit. */
export type Effect =
  | { type: "begin"; node: string; boot: string; attempt: number }
  | { type: "halt"; node: string; boot: string; attempt: number; reason: FenceReason }
  | { type: "settled" }
  | { type: "log"; level: "info" | "warn" | "error"; text: string };

export type IgnoredReason =
  /** The message is about an attempt that is not the current one of a running job. */
  | "not-current"
  /** The same message was carried out before; its sender may be told so. */
  | "already-done"
  | "already-ended"
  | "not-pending"
  | "not-ready"
  | "not-due"
  | "not-ended";

export type Step =
  | {
      outcome: "changed";
      job: Job;
      effects: Effect[];
      /** False: the change may be lost in a crash, nobody was promised anything. */
      durable: boolean;
    }
  | { outcome: "ignored"; reason: IgnoredReason };

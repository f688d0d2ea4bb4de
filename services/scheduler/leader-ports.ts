import type { FenceReason } from "./job.messages.ts";
import type { step } from "./job.step.ts";
import type { Ms, StartOrder } from "./job.types.ts";
import type { JobMetrics } from "./job-meter.ts";
import type { JobStore, OutboxEntry } from "./job-store.ts";

/** Everything that the leader needs of the world. It has no clock, timer or network of its own. */
export interface LeaderPorts {
  store: JobStore;
  /** The term that this leader was elected for; it goes with every change. */
  term: number;
  /** The store knows of a later term, or the own lease has ended: this leader is over. Called once. */
  deposed(): void;
  /** Whether the lease that was last confirmed still runs: a comparison, made before every answer and effect. */
  holdsLease(): boolean;
  now(): Ms;
  /** 0 to 1. */
  random(): number;
  /** Rejects when the outcome is unknown. */
  begin(
    node: string,
    order: StartOrder,
  ): Promise<{ outcome: "accepted" | "duplicate" | "refused"; reason?: string }>;
  halt(
    node: string,
    ref: { jobId: string; attempt: number; reason: FenceReason },
  ): Promise<unknown>;
  /** Which boot answers at this node now; rejects when none does. */
  probe?(node: string): Promise<{ boot: string }>;
  /** Calls the action with the parameters, `{ job, params }`; rejects when it must be tried again. */
  deliver(entry: OutboxEntry): Promise<unknown>;
  /** Hears of each transition that is on disk. */
  metrics?: Pick<JobMetrics, "moved">;
  log(level: "info" | "warn" | "error", text: string): void;
  /** The state machine; a test that wants to see a broken rule caught gives another. */
  step?: typeof step;
  /** `nextWakeAt` may be earlier than it was. */
  rearm?(): void;
}

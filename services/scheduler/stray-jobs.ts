import type { SchedulerConfig } from "./config.ts";
import type { Job, Ms } from "./job.types.ts";
import type { JobStore } from "./job-store.ts";

interface StrayPorts {
  store: Pick<JobStore, "strays" | "active" | "exclusive">;
  term: number;
  now(): Ms;
  /** As it is stored, or later. */
  isKnown(job: Job): boolean;
  /** The job is in the store and must be read. */
  found(id: string): void;
}

/**
 * Finds active jobs that are stored without this leader knowing of them: an earlier leader's, which a store without
 * transactions took after the take-over, and its own, of writes that came through long after they were given up.
 */
export class StrayJobs {
  readonly #ports: StrayPorts;
  readonly #config: SchedulerConfig;
  #lookAt: Ms;
  /** Until then writes may come through that nobody waits for any more. */
  #lateUntil: Ms = Number.NEGATIVE_INFINITY;

  constructor(ports: StrayPorts, config: SchedulerConfig) {
    this.#ports = ports;
    this.#config = config;
    this.#lookAt = ports.store.exclusive ? Number.POSITIVE_INFINITY : ports.now();
  }

  /** A write got no answer. */
  unknownOutcome(): void {
    this.#lateUntil = this.#ports.now() + this.#config.lateWriteMs;
  }

  nextAt(): Ms | undefined {
    return Number.isFinite(this.#lookAt) ? this.#lookAt : undefined;
  }

  isDue(now: Ms): boolean {
    return now >= this.#lookAt;
  }

  /** Looks, if it is time to. */
  async tick(now: Ms): Promise<void> {
    if (!this.isDue(now)) return;
    const { store, term, isKnown, found } = this.#ports;
    this.#lookAt = now + this.#config.straysMs;
    try {
      for (const { spec } of await store.strays(term)) found(spec.id);
    } catch (error) {
      // If only the answer was lost, they are strays no more and still unknown.
      this.unknownOutcome();
      throw error;
    }
    if (now >= this.#lateUntil) return;
    for await (const job of store.active()) if (!isKnown(job)) found(job.spec.id);
  }
}

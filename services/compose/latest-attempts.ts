import type { AttemptKey } from "./node-ports.ts";

/** The latest attempt of each job that was heard of lately; the jobs that were named longest ago are forgotten. */
export class LatestAttempts {
  readonly #attempts = new Map<string, number>();
  readonly #jobsMax: number;

  constructor(jobsMax: number) {
    this.#jobsMax = jobsMax;
  }

  /** 0: none is known. */
  of(jobId: string): number {
    return this.#attempts.get(jobId) ?? 0;
  }

  note({ jobId, attempt }: AttemptKey): void {
    const latest = Math.max(this.of(jobId), attempt);
    this.#attempts.delete(jobId);
    this.#attempts.set(jobId, latest);
    if (this.#attempts.size > this.#jobsMax)
      this.#attempts.delete(this.#attempts.keys().next().value as string);
  }

  forget(jobId: string): void {
    this.#attempts.delete(jobId);
  }
}

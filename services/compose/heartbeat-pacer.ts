import type { Ms } from "../scheduler/job.types.ts";

interface PaceLimits {
  heartbeatMs: number;
  progressMs: number;
  retryMsMin: number;
}

/** When the next heartbeat is due: at a steady pace, sooner when there is news, again soon when one got no answer. */
export class HeartbeatPacer {
  readonly #limits: PaceLimits;
  /** Never, until the node is ready. */
  #nextAt: Ms = Number.POSITIVE_INFINITY;
  #sentAt: Ms = Number.NEGATIVE_INFINITY;
  #underWay = false;
  #failures = 0;

  constructor(limits: PaceLimits) {
    this.#limits = limits;
  }

  /** One at a time: none is due while another is under way. */
  get dueAt(): Ms {
    return this.#underWay ? Number.POSITIVE_INFINITY : this.#nextAt;
  }

  atOnce(now: Ms): void {
    this.#nextAt = now;
  }

  /** There is progress to report; bounded, since progress comes often. */
  soon(): boolean {
    const at = this.#sentAt + this.#limits.progressMs;
    if (at >= this.#nextAt) return false;
    this.#nextAt = at;
    return true;
  }

  sent(now: Ms): void {
    this.#underWay = true;
    this.#sentAt = now;
    this.#nextAt = now + this.#limits.heartbeatMs;
  }

  answered(): void {
    this.#underWay = false;
    this.#failures = 0;
  }

  unanswered(now: Ms): void {
    const { retryMsMin, heartbeatMs } = this.#limits;
    const pauseMs = Math.min(heartbeatMs, retryMsMin * 2 ** Math.min(this.#failures, 10));
    this.#underWay = false;
    this.#failures += 1;
    this.#nextAt = Math.min(this.#nextAt, now + pauseMs);
  }
}

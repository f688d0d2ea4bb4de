import type { Ms } from "./job.types.ts";
import type { JobStore, Leadership } from "./job-store.ts";
import { type Claim, claimOn, leaderTimes, type Sighting, sighted } from "./leadership.policy.ts";

export interface ElectionPorts {
  store: Pick<JobStore, "leadership" | "takeOver" | "renew" | "resign" | "exclusive">;
  /** Name of this run of the process: another run of the same node must have another. */
  holder: string;
  nowMonotonic(): Ms;
  /** Runs something once, later; the answer calls it off. */
  after(delayMs: Ms, run: () => void): () => void;
  /** Opens what only a leader does. Rejects when it cannot; then the leadership is given back. */
  lead(term: number): Promise<void>;
  /** The term is over: closes what `lead` opened, or keeps it from opening. Never rejects. */
  stepDown(term: number, why: string): Promise<void>;
  log(level: "info" | "warn", text: string): void;
}

export interface ElectionStatus {
  role: "leader" | "standby" | "stopped";
  /** The latest term that this node knows of; 0: none. */
  term: number;
  /** Who leads, as far as this node knows; empty: nobody. */
  holder: string;
  /** How long this role has lasted. */
  sinceMs: Ms;
  /** Time since the leader's last sign of life that this node has seen; nothing: it needs none, or saw none. */
  lastRenewedMs?: Ms;
}

/**
 * Decides whether this node leads. One of all nodes that share the store does: a leader counts on its lease from when
 * it sent a renewal, a standby takes over when it has seen no renewal for longer than that, and the store refuses
 * what an earlier term still writes.
 */
export class Election {
  readonly #ports: ElectionPorts;
  readonly #times: ReturnType<typeof leaderTimes>;
  #role: ElectionStatus["role"] = "standby";
  #roleSince: Ms;
  #term = 0;
  #leaseEndsAt: Ms = Number.NEGATIVE_INFINITY;
  #renewedAt: Ms | undefined;
  #seen: Sighting | undefined;
  #callOffNext = () => {};
  #callOffEnd = () => {};
  /** The end of the last term, which the next one waits for. */
  #ending: Promise<void> = Promise.resolve();
  /** Said once, not with each try. */
  #isStoreSilent = false;

  constructor(ports: ElectionPorts, leaseMs: Ms) {
    this.#ports = ports;
    this.#times = leaderTimes(leaseMs);
    this.#roleSince = ports.nowMonotonic();
  }

  /** Looks for the first time; where the store is exclusive, this node leads when the promise resolves. */
  start(): Promise<void> {
    return this.#look();
  }

  /** Gives the leadership back, so that a standby need not wait for the lease. */
  async stop(): Promise<void> {
    const term = this.#role === "leader" ? this.#term : undefined;
    this.#become("stopped");
    if (term !== undefined) await this.#end(term, "stopped");
    if (term !== undefined) await this.#resign(term);
  }

  /** Whether this node leads under this term and knows that nobody else can. A comparison: cheap enough for each call. */
  holdsLease(term: number): boolean {
    return (
      this.#role === "leader" &&
      this.#term === term &&
      this.#ports.nowMonotonic() < this.#leaseEndsAt
    );
  }

  /** The leader found out by itself that its term is over. */
  deposed(term: number): void {
    if (this.#role === "leader" && this.#term === term) this.#stepDown("its term is over");
  }

  get status(): ElectionStatus {
    const now = this.#ports.nowMonotonic();
    const leads = this.#role === "leader";
    const renewedAt = leads ? this.#renewedAt : this.#seen?.sinceMs;
    return {
      role: this.#role,
      term: leads ? this.#term : (this.#seen?.leadership.term ?? 0),
      holder: leads ? this.#ports.holder : (this.#seen?.leadership.holder ?? ""),
      sinceMs: now - this.#roleSince,
      lastRenewedMs:
        this.#ports.store.exclusive || renewedAt === undefined ? undefined : now - renewedAt,
    };
  }

  async #look(): Promise<void> {
    try {
      const leadership = await this.#ports.store.leadership();
      if (this.#role !== "standby") return;
      const now = this.#ports.nowMonotonic();
      this.#seen = sighted(this.#seen, leadership, now);
      const claim = claimOn(this.#seen, now, {
        holder: this.#ports.holder,
        leaseMs: this.#times.leaseMs,
        isExclusive: this.#ports.store.exclusive === true,
      });
      if (claim) await this.#takeOver(leadership, claim);
      this.#isStoreSilent = false;
    } catch (error) {
      this.#storeFailed(error);
    }
    if (this.#role === "standby") this.#next(this.#times.pollMs, () => this.#look());
  }

  async #takeOver(seen: Leadership, claim: Claim): Promise<void> {
    let sentAt = this.#ports.nowMonotonic();
    const taken = await this.#ports.store.takeOver(seen, this.#ports.holder);
    if (!taken) return;
    if (this.#ports.nowMonotonic() - sentAt >= this.#times.renewMs) {
      // Fencing many jobs off may take longer than a lease; the store has renewed it meanwhile.
      sentAt = this.#ports.nowMonotonic();
      if (!(await this.#ports.store.renew(taken.term))) return;
    }
    if (this.#role !== "standby") return this.#resign(taken.term);
    this.#become("leader");
    this.#term = taken.term;
    this.#ports.log("info", `leads, term ${taken.term} (${claim})`);
    if (this.#ports.store.exclusive) this.#leaseEndsAt = Number.POSITIVE_INFINITY;
    else this.#confirmed(sentAt);
    const led = this.#lead(taken.term);
    // Reading a long queue must not keep the lease from being renewed; alone, there is none.
    if (this.#ports.store.exclusive) await led;
  }

  async #lead(term: number): Promise<void> {
    try {
      await this.#ending;
      if (this.holdsLease(term)) await this.#ports.lead(term);
    } catch (error) {
      if (this.#role !== "leader" || this.#term !== term) return;
      this.#stepDown(`cannot begin: ${(error as Error).message}`);
      await this.#resign(term);
    }
  }

  /** The lease was confirmed by an answer to what was sent at this time. */
  #confirmed(sentAt: Ms): void {
    const { ownLeaseMs, renewMs } = this.#times;
    const now = this.#ports.nowMonotonic();
    this.#renewedAt = sentAt;
    this.#leaseEndsAt = sentAt + ownLeaseMs;
    this.#callOffEnd();
    const term = this.#term;
    this.#callOffEnd = this.#ports.after(Math.max(0, this.#leaseEndsAt - now), () => {
      if (this.#role === "leader" && this.#term === term && !this.holdsLease(term))
        this.#stepDown("its lease has ended");
    });
    this.#next(Math.max(0, sentAt + renewMs - now), () => this.#renew(term));
  }

  async #renew(term: number): Promise<void> {
    const isOver = () => this.#role !== "leader" || this.#term !== term;
    if (isOver()) return;
    const sentAt = this.#ports.nowMonotonic();
    try {
      const isHeld = await this.#ports.store.renew(term);
      if (isOver()) return;
      this.#isStoreSilent = false;
      if (!isHeld) this.#stepDown("a later leader has taken over");
      else if (!this.holdsLease(term)) this.#stepDown("its lease has ended");
      else this.#confirmed(sentAt);
    } catch (error) {
      if (isOver()) return;
      this.#storeFailed(error);
      this.#next(this.#times.pollMs, () => this.#renew(term));
    }
  }

  #stepDown(why: string): void {
    const term = this.#term;
    this.#ports.log("warn", `leads no more, term ${term}: ${why}`);
    this.#become("standby");
    void this.#end(term, why);
    this.#next(this.#times.pollMs, () => this.#look());
  }

  #end(term: number, why: string): Promise<void> {
    this.#ending = this.#ending.then(() => this.#ports.stepDown(term, why));
    return this.#ending;
  }

  async #resign(term: number): Promise<void> {
    try {
      await this.#ports.store.resign(term);
    } catch (error) {
      // The lease ends by itself.
      this.#storeFailed(error);
    }
  }

  #become(role: ElectionStatus["role"]): void {
    this.#callOffNext();
    this.#callOffEnd();
    this.#role = role;
    this.#roleSince = this.#ports.nowMonotonic();
    this.#leaseEndsAt = Number.NEGATIVE_INFINITY;
    this.#renewedAt = undefined;
    this.#seen = undefined;
  }

  #next(delayMs: Ms, run: () => Promise<void>): void {
    this.#callOffNext();
    this.#callOffNext = this.#ports.after(delayMs, () => void run());
  }

  #storeFailed(error: unknown): void {
    if (!this.#isStoreSilent)
      this.#ports.log("warn", `the job store does not answer: ${(error as Error).message}`);
    this.#isStoreSilent = true;
  }
}

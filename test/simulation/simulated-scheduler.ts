import { AppError } from "../../lib/errors.ts";
import type { SchedulerConfig } from "../../services/scheduler/config.ts";
import { Election } from "../../services/scheduler/election.ts";
import { Leader, type LeaderPorts } from "../../services/scheduler/leader.ts";
import type { Party } from "./network.ts";
import type { Random } from "./random.ts";
import type { SimulatedStore } from "./simulated-store.ts";
import type { World } from "./world.ts";

/** The calls that others make to the leader. */
export type LeaderCalls = Pick<
  Leader,
  | "submit"
  | "cancel"
  | "retry"
  | "pause"
  | "resume"
  | "get"
  | "heartbeat"
  | "complete"
  | "fail"
  | "handBack"
>;

/** What a broken rule may replace of the leader's ports. */
export type BreakablePorts = Pick<LeaderPorts, "begin" | "holdsLease">;

export interface SchedulerOptions {
  name: string;
  world: World;
  epoch: number;
  store: SimulatedStore;
  config: SchedulerConfig;
  ports: (self: SimulatedScheduler) => Pick<LeaderPorts, "begin" | "halt" | "probe" | "deliver">;
  /** A leader has begun; what this answers ends with it. */
  led?: (self: SimulatedScheduler, leader: LeaderCalls) => () => void;
  wrapCalls?: (calls: LeaderCalls) => LeaderCalls;
  wrapStore?: (store: LeaderPorts["store"]) => LeaderPorts["store"];
  wrapLeaderPorts?: <P extends BreakablePorts>(ports: P) => P;
}

/** What discovery tells of a scheduler: that it leads, and its term. */
interface Announcement {
  term: number;
}

/** One process of the scheduler: the real election and, while it leads, the real leader. A crash drops both. */
export class SimulatedScheduler implements Party {
  readonly name: string;
  incarnation = 0;
  isUp = false;
  frozenUntil = 0;
  announced: Announcement | undefined;
  /** Since when this process has led without a break; infinite: it does not. */
  leadsSince = Number.POSITIVE_INFINITY;
  readonly #options: SchedulerOptions;
  readonly #random: Random;
  #election: Election | undefined;
  #leader: Leader | undefined;
  #term = 0;
  #calls: LeaderCalls | undefined;
  #unled: (() => void) | undefined;
  #armed = 0;
  #armedAt = Number.POSITIVE_INFINITY;
  #ticking = false;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.name = options.name;
    this.#random = options.world.random(options.name);
  }

  /** Name of this run, as the store sees its writer. */
  get run(): string {
    return `${this.name}#${this.incarnation}`;
  }

  /** Whether this run acts under its term now, by its own clock. */
  holdsLease(run: string): boolean {
    return this.isUp && this.run === run && (this.#election?.holdsLease(this.#term) ?? false);
  }

  start(): void {
    if (this.isUp) return;
    this.incarnation += 1;
    this.isUp = true;
    this.frozenUntil = 0;
    this.announced = undefined;
    const { world, store, config, wrapStore } = this.#options;
    const { incarnation, run } = this;
    world.note(() => `${this.name} starts (run ${incarnation})`);
    const opened = store.open(this, run);
    const wrapped = wrapStore?.(opened) ?? opened;
    // No two clocks start at the same value or run at quite the same pace.
    const offset = this.#random.int(0, 1_000_000);
    const pace = 0.98 + 0.04 * this.#random.next();
    const election = new Election(
      {
        store: wrapped,
        holder: run,
        nowMonotonic: () => world.now * pace + offset,
        after: (delayMs, act) => {
          let isOpen = true;
          this.#later(incarnation, Math.ceil(delayMs / pace), () => {
            if (isOpen) act();
          });
          return () => {
            isOpen = false;
          };
        },
        lead: (term) => this.#lead(incarnation, term, wrapped),
        stepDown: async (term) => this.#stepDown(incarnation, term),
        log: (_level, text) => world.note(() => `${this.name}: ${text}`),
      },
      config.leaderLeaseMs,
    );
    this.#election = election;
    void election.start();
  }

  crash(): void {
    if (!this.isUp) return;
    this.#options.world.note(() => `${this.name} crashes`);
    this.isUp = false;
    this.incarnation += 1;
    this.#election = undefined;
    const { announced } = this;
    this.#close();
    // The others notice after a while.
    this.announced = announced;
    this.#options.world.after(this.#random.int(10, 10_000), () => {
      if (this.announced === announced) this.announced = undefined;
    });
  }

  /** An operator stops it in good order. */
  stop(ended: () => void): void {
    const { incarnation } = this;
    if (!this.isUp || !this.#election) return;
    this.#options.world.note(() => `${this.name} is stopped`);
    const end = () => {
      if (this.incarnation !== incarnation) return;
      this.crash();
      ended();
    };
    void this.#election.stop().then(end);
    this.#later(incarnation, 10_000, end);
  }

  /** The machine stands still and does not know of it afterwards; what comes in the meantime waits. */
  freeze(forMs: number): void {
    this.frozenUntil = Math.max(this.frozenUntil, this.#options.world.now + forMs);
  }

  /** A call that has arrived. */
  calls(): LeaderCalls {
    if (!this.#calls) throw new AppError("NOT_LEADER");
    return this.#calls;
  }

  /** Runs something later, unless this run is over by then. */
  #later(incarnation: number, delayMs: number, act: () => void): void {
    const { world } = this.#options;
    world.after(delayMs, () => {
      if (this.incarnation !== incarnation) return false;
      const waitMs = this.frozenUntil - world.now;
      // After a stop, what has arrived may be handled before the timers that are overdue.
      if (waitMs > 0) this.#later(incarnation, waitMs + this.#random.int(0, 5), act);
      else act();
      return waitMs <= 0;
    });
  }

  async #lead(incarnation: number, term: number, store: LeaderPorts["store"]): Promise<void> {
    const { world, epoch, config, ports, wrapCalls, wrapLeaderPorts } = this.#options;
    const election = this.#election as Election;
    this.#term = term;
    const given: LeaderPorts = {
      store,
      term,
      deposed: () => election.deposed(term),
      holdsLease: () => election.holdsLease(term),
      now: () => world.now + epoch,
      random: world.random(`${this.name}/${incarnation}/${term}`).next,
      ...ports(this),
      log: (level, text) => {
        if (level !== "info") world.note(() => `${this.name}: ${text}`);
      },
      rearm: () => {
        if (this.incarnation === incarnation && this.#term === term) this.#arm(incarnation);
      },
    };
    const leader = await Leader.open(wrapLeaderPorts?.(given) ?? given, config);
    if (this.incarnation !== incarnation || this.#term !== term) {
      leader.close();
      return;
    }
    this.#leader = leader;
    this.#calls = wrapCalls?.(leader) ?? leader;
    this.#unled = this.#options.led?.(this, this.#calls);
    this.leadsSince = world.now;
    this.#later(incarnation, this.#random.int(1, 50), () => {
      if (this.#leader === leader) this.announced = { term };
    });
    this.#arm(incarnation);
  }

  #stepDown(incarnation: number, term: number): void {
    if (this.incarnation === incarnation && this.#term === term) this.#close();
  }

  #close(): void {
    this.#leader?.close();
    this.#unled?.();
    this.#unled = undefined;
    this.#leader = undefined;
    this.#calls = undefined;
    this.#term = 0;
    this.announced = undefined;
    this.leadsSince = Number.POSITIVE_INFINITY;
    this.#armed += 1;
    this.#armedAt = Number.POSITIVE_INFINITY;
    this.#ticking = false;
  }

  #arm(incarnation: number): void {
    const { world, epoch } = this.#options;
    // As the product's timer does: a tick that waits for the store is the only one.
    if (this.#ticking) return;
    const wakeAt = this.#leader?.nextWakeAt();
    if (wakeAt === undefined || wakeAt >= this.#armedAt) return;
    this.#armedAt = wakeAt;
    this.#armed += 1;
    const token = this.#armed;
    // At least a millisecond: a leader that asks to be woken at once must not stop the clock.
    this.#later(incarnation, Math.max(1, wakeAt - epoch - world.now), () => {
      if (token !== this.#armed) return;
      this.#armedAt = Number.POSITIVE_INFINITY;
      void this.#tick(incarnation);
    });
  }

  async #tick(incarnation: number): Promise<void> {
    const leader = this.#leader;
    this.#ticking = true;
    await leader?.tick();
    if (this.incarnation !== incarnation || this.#leader !== leader) return;
    this.#ticking = false;
    this.#arm(incarnation);
  }
}

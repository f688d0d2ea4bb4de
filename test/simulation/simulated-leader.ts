import { AppError } from "../../lib/errors.ts";
import type { SchedulerConfig } from "../../services/scheduler/config.ts";
import { Leader, type LeaderPorts } from "../../services/scheduler/leader.ts";
import type { Party } from "./network.ts";
import type { SimulatedDisk } from "./simulated-store.ts";
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

export interface LeaderOptions {
  world: World;
  epoch: number;
  disk: SimulatedDisk;
  config: SchedulerConfig;
  ports: (leader: SimulatedLeader) => Pick<LeaderPorts, "begin" | "halt" | "probe" | "deliver">;
  wrapCalls?: (calls: LeaderCalls) => LeaderCalls;
  wrapStore?: (store: LeaderPorts["store"]) => LeaderPorts["store"];
}

/** The real leader on a simulated disk; a crash drops it, a start opens another one. */
export class SimulatedLeader implements Party {
  readonly name = "leader";
  incarnation = 0;
  isUp = false;
  upSince = 0;
  readonly #options: LeaderOptions;
  #leader: Leader | undefined;
  #calls: LeaderCalls | undefined;
  #armed = 0;
  #armedAt = Number.POSITIVE_INFINITY;

  constructor(options: LeaderOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.isUp) return;
    this.incarnation += 1;
    this.isUp = true;
    this.upSince = this.#options.world.now;
    this.#options.world.note(() => `leader starts (run ${this.incarnation})`);
    void this.#open(this.incarnation);
  }

  crash(): void {
    if (!this.isUp) return;
    this.#options.world.note(() => "leader crashes");
    this.isUp = false;
    this.incarnation += 1;
    this.#leader = undefined;
    this.#calls = undefined;
    this.#armed += 1;
    this.#armedAt = Number.POSITIVE_INFINITY;
    void this.#options.disk.crash();
  }

  /** A call that has arrived; while the leader reads its store it is not there yet. */
  calls(): LeaderCalls {
    if (!this.#calls) throw new AppError("UNAVAILABLE", { reason: "the scheduler is starting" });
    return this.#calls;
  }

  async #open(incarnation: number): Promise<void> {
    const { world, epoch, disk, config, ports, wrapCalls, wrapStore } = this.#options;
    const store = disk.open();
    const leader = await Leader.open(
      {
        store: wrapStore?.(store) ?? store,
        term: 0,
        deposed: () => undefined,
        holdsLease: () => true,
        now: () => world.now + epoch,
        random: world.random(`leader/${incarnation}`).next,
        ...ports(this),
        log: (level, text) => {
          if (level !== "info") world.note(() => `leader: ${text}`);
        },
        rearm: () => {
          if (this.incarnation === incarnation) this.#arm();
        },
      },
      config,
    );
    if (this.incarnation !== incarnation) return;
    this.#leader = leader;
    this.#calls = wrapCalls?.(leader) ?? leader;
    this.#arm();
  }

  #arm(): void {
    const { world, epoch } = this.#options;
    const wakeAt = this.#leader?.nextWakeAt();
    if (wakeAt === undefined || wakeAt >= this.#armedAt) return;
    this.#armedAt = wakeAt;
    this.#armed += 1;
    const token = this.#armed;
    // At least a millisecond: a leader that asks to be woken at once must not stop the clock.
    world.after(Math.max(1, wakeAt - epoch - world.now), () => {
      if (token !== this.#armed) return false;
      this.#armedAt = Number.POSITIVE_INFINITY;
      void this.#tick();
      return true;
    });
  }

  async #tick(): Promise<void> {
    const { incarnation } = this;
    await this.#leader?.tick();
    if (this.incarnation === incarnation) this.#arm();
  }
}

import { executionLimits, type NodeLimits, nodeLimits } from "../../services/compose/config.ts";
import { NodeAgent } from "../../services/compose/node-agent.ts";
import type {
  AttemptKey,
  ExecutionOutcome,
  JournalEntry,
  NodeJournal,
  NodePorts,
} from "../../services/compose/node-ports.ts";
import type {
  AttemptReport,
  HeartbeatAnswer,
  JobResult,
  NodeReport,
  StartOrder,
} from "../../services/scheduler/job.types.ts";
import type { Checkers } from "./checkers.ts";
import type { Party } from "./network.ts";
import type { Random } from "./random.ts";
import type { Work } from "./scenario.ts";
import type { World } from "./world.ts";

/** The parts of the node's ports that go over the network to the leader. */
export type ToLeader = Pick<NodePorts, "complete" | "fail" | "handBack" | "isCommitted"> & {
  /** Where the node cannot delete its output by itself. */
  discardOutput?: NodePorts["discardOutput"];
  heartbeat(report: NodeReport, attempts: AttemptReport[]): Promise<HeartbeatAnswer>;
};

/** Deliberate mistakes, for the proof that the checkers see them. */
export interface NodeFaults {
  wrapPorts?: (ports: NodePorts) => NodePorts;
  forgetsJournal?: boolean;
}

const { stopMsMax, handBackMsMax } = executionLimits;
const name = ({ jobId, attempt }: AttemptKey) => `${jobId}/${attempt}`;
const shown = ({ jobId, attempt }: AttemptKey) => `${jobId.slice(-6)}/${attempt}`;

/** Objects that attempts have uploaded, for all nodes. */
export class SimulatedStorage {
  readonly objects = new Set<string>();

  removeOutputs({ jobId, upTo, keep }: { jobId: string; upTo: number; keep?: number }): void {
    for (const key of this.objects) {
      const [job, attempt] = key.split("/");
      if (job === jobId && Number(attempt) <= upTo && Number(attempt) !== keep)
        this.objects.delete(key);
    }
  }
}

/** A compose node: the real agent, a journal that survives crashes, and processes that do so too. */
export class SimulatedNode implements Party {
  readonly name: string;
  readonly slots: number;
  incarnation = 0;
  isUp = false;
  frozenUntil = 0;
  agent: NodeAgent | undefined;
  readonly #world: World;
  readonly #random: Random;
  readonly #leader: (node: SimulatedNode) => ToLeader;
  readonly #storage: SimulatedStorage;
  readonly #checkers: Checkers;
  readonly #workOf: (order: StartOrder) => Work;
  readonly #faults: NodeFaults;
  readonly #limits: NodeLimits;
  readonly #durable = new Map<string, JournalEntry>();
  /** Running processes by attempt; they outlive the node's own process. */
  readonly #processes = new Map<string, { order: StartOrder; boot: string }>();
  #boot = "";

  constructor(options: {
    name: string;
    slots: number;
    world: World;
    leader: (node: SimulatedNode) => ToLeader;
    storage: SimulatedStorage;
    checkers: Checkers;
    workOf: (order: StartOrder) => Work;
    faults: NodeFaults;
    limits?: NodeLimits;
  }) {
    this.name = options.name;
    this.slots = options.slots;
    this.#world = options.world;
    this.#random = options.world.random(options.name);
    this.#leader = options.leader;
    this.#storage = options.storage;
    this.#checkers = options.checkers;
    this.#workOf = options.workOf;
    this.#faults = options.faults;
    this.#limits = options.limits ?? nodeLimits;
  }

  start(): void {
    if (this.isUp) return;
    this.incarnation += 1;
    this.isUp = true;
    this.frozenUntil = 0;
    this.#boot = `${this.name}-run${String(this.incarnation).padStart(3, "0")}`;
    this.#world.note(() => `${this.name} starts as ${this.#boot}`);
    const identity = { node: this.name, boot: this.#boot, slots: this.slots, kinds: ["render"] };
    const ports = this.#ports(this.incarnation, this.#boot);
    this.agent = new NodeAgent(identity, this.#faults.wrapPorts?.(ports) ?? ports, this.#limits);
    this.#checkers.nodeStarted(this.name, this.#boot);
    void this.agent.recover();
  }

  /** An operator stops the node in good order, whether the scheduler hears of it or not. */
  stop(ended: () => void): void {
    const { agent, incarnation } = this;
    if (!this.isUp || !agent) return;
    this.#world.note(() => `${this.name} is stopped`);
    const end = () => {
      if (this.incarnation !== incarnation) return;
      this.crash();
      ended();
    };
    const drained = agent.drain(0);
    this.#later(incarnation, stopMsMax, end);
    void agent.whenQuiet().then(() => {
      this.#later(incarnation, handBackMsMax, end);
      void drained.then(() => this.#later(incarnation, 1, end));
    });
  }

  crash(): void {
    if (!this.isUp) return;
    this.#world.note(() => `${this.name} crashes`);
    this.isUp = false;
    this.incarnation += 1;
    this.agent = undefined;
    this.#checkers.nodeCrashed(this.name);
  }

  get boot(): string {
    return this.#boot;
  }

  /** Attempts whose processes run, whether the node knows of them or not. */
  running(): { order: StartOrder; boot: string }[] {
    return [...this.#processes.values()];
  }

  /** The machine stands still, its processes too, and does not know of it afterwards. */
  freeze(forMs: number): void {
    this.frozenUntil = Math.max(this.frozenUntil, this.#world.now + forMs);
    this.#checkers.nodeFrozen(this.name, this.frozenUntil);
  }

  /** Runs something later, unless this run of the node is over by then. */
  #later(incarnation: number, delayMs: number, run: () => void): void {
    this.#world.after(delayMs, () => {
      if (this.incarnation !== incarnation) return false;
      const waitMs = this.frozenUntil - this.#world.now;
      if (waitMs > 0) this.#later(incarnation, waitMs, run);
      else run();
      return waitMs <= 0;
    });
  }

  #ports(incarnation: number, boot: string): NodePorts {
    const world = this.#world;
    const toLeader = this.#leader(this);
    let wakeAt = Number.POSITIVE_INFINITY;
    let beat = 0;
    const clockOffset = this.#random.int(0, 1_000_000);
    const clock = () => world.now + clockOffset;
    return {
      nowMonotonic: clock,
      journal: this.#journal(incarnation),
      execute: (order, signal, report) => this.#execute(incarnation, boot, order, signal, report),
      killOrphan: (entry) =>
        new Promise((resolve) => {
          this.#later(incarnation, this.#random.int(1, 500), () => {
            this.#processes.delete(name(entry));
            resolve();
          });
        }),
      discardOutput:
        toLeader.discardOutput ??
        ((key) =>
          new Promise((resolve) => {
            this.#later(incarnation, this.#random.int(1, 20), () => {
              this.#storage.objects.delete(name(key));
              this.#checkers.discarded(key);
              resolve();
            });
          })),
      isCommitted: toLeader.isCommitted,
      heartbeat: (attempts, draining) => {
        beat += 1;
        return toLeader.heartbeat(
          {
            node: this.name,
            boot,
            beat,
            kinds: ["render"],
            slots: this.slots,
            cpuPercent: 0,
            memoryPercent: 0,
            gpu: { count: 0, idle: 0, usedPercent: 0 },
            draining,
          },
          attempts,
        );
      },
      complete: toLeader.complete,
      fail: toLeader.fail,
      handBack: toLeader.handBack,
      log: (_level, text) => world.note(() => `${this.name}: ${text}`),
      wakeAt: (at) => {
        wakeAt = at;
        if (at === Number.POSITIVE_INFINITY) return;
        this.#later(incarnation, at - clock(), () => {
          // Armed anew in the meantime.
          if (wakeAt !== at) return;
          wakeAt = Number.POSITIVE_INFINITY;
          this.agent?.tick(clock());
        });
      },
    };
  }

  #journal(incarnation: number): NodeJournal {
    const durable = this.#durable;
    if (this.#faults.forgetsJournal) durable.clear();
    const write = (change: () => void) =>
      new Promise<void>((resolve) => {
        // A write that a crash overtakes may have reached the disk all the same.
        const survives = this.#random.chance(0.5);
        this.#world.after(this.#random.int(1, 4), () => {
          const lives = this.incarnation === incarnation;
          if (lives || survives) change();
          if (lives) resolve();
        });
      });
    return {
      add: (entry) => write(() => durable.set(name(entry), { ...entry })),
      addProcess: () => Promise.resolve(),
      release: (key) =>
        write(() => {
          const entry = durable.get(name(key));
          if (entry) durable.set(name(key), { ...entry, released: true });
        }),
      remove: (key) => write(() => durable.delete(name(key))),
      entries: () => [...durable.values()],
    };
  }

  #execute(
    incarnation: number,
    boot: string,
    order: StartOrder,
    signal: AbortSignal,
    report: (progress: number, stage?: string) => void,
  ): Promise<ExecutionOutcome> {
    const key = name(order);
    const work = this.#workOf(order);
    const fate = work.attempts[Math.min(order.attempt, work.attempts.length) - 1] ?? "ok";
    this.#processes.set(key, { order, boot });
    this.#checkers.executionStarted(this.name, order);
    this.#world.note(() => `${this.name} runs ${shown(order)} (${fate})`);
    return new Promise((resolve) => {
      let open = true;
      const end = (outcome: ExecutionOutcome) => {
        if (!open) return;
        open = false;
        this.#processes.delete(key);
        this.#world.note(
          () => `${this.name} has ended ${shown(order)}: ${outcome.ok ? "ok" : "no result"}`,
        );
        resolve(outcome);
      };
      const failure = (type: string, retryable: boolean) =>
        ({ ok: false, error: { type, message: type }, retryable }) as const;
      signal.addEventListener("abort", () =>
        this.#later(incarnation, this.#random.int(5, 1_500), () =>
          end(failure("SIM_ABORTED", true)),
        ),
      );
      if (fate === "hang") {
        this.#pulse(incarnation, report, () => open);
        return;
      }
      if (fate === "silent") return;
      this.#later(incarnation, Math.ceil(work.durationMs / 2), () => open && report(0.5, "half"));
      this.#later(incarnation, work.durationMs, () => {
        if (!open || signal.aborted) return;
        if (fate === "ok") {
          this.#storage.objects.add(key);
          end({ ok: true, result: resultOf(order) });
        } else end(failure(fate === "fatal" ? "SIM_FATAL" : "SIM_ERROR", fate === "error"));
      });
    });
  }

  /** Signs of life of an attempt that never ends. */
  #pulse(incarnation: number, report: (progress: number) => void, isOpen: () => boolean): void {
    let share = 0;
    const beat = () => {
      if (!isOpen()) return;
      share += (1 - share) / 20;
      report(share);
      this.#later(incarnation, 4_000, beat);
    };
    beat();
  }
}

const resultOf = (order: StartOrder): JobResult => ({
  hash: name(order),
  outputs: [{ bucket: "b", key: name(order), bytes: 1, contentType: "text/plain", role: "media" }],
  info: {},
});

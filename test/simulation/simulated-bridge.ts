import { nodeLimits, standaloneLimits } from "../../services/compose/config.ts";
import { AttemptDesk } from "../../services/compose/standalone/attempt-desk.ts";
import { type BridgeCalls, BridgeLink } from "../../services/scheduler/bridge-link.ts";
import { bridgeLimits } from "../../services/scheduler/config.ts";
import type { StartOrder } from "../../services/scheduler/job.types.ts";
import type { Checkers } from "./checkers.ts";
import type { Network, Party } from "./network.ts";
import type { Random } from "./random.ts";
import type { SimulatedNode, SimulatedStorage, ToLeader } from "./simulated-node.ts";
import type { LeaderCalls } from "./simulated-scheduler.ts";
import type { World } from "./world.ts";

/** What a broken rule may replace of the requests to a bridge. */
export type BreakBridge = (calls: BridgeCalls) => BridgeCalls;

interface Surroundings {
  world: World;
  network: Network;
  checkers: Checkers;
  storage: SimulatedStorage;
  breakCalls?: BreakBridge;
}

const load = { cpuPercent: 0, memoryPercent: 0, gpu: { count: 0, idle: 0, usedPercent: 0 } };
const shown = ({ jobId, attempt }: { jobId: string; attempt: number }) =>
  `${jobId.slice(-6)}/${attempt}`;

/**
 * A bridge outside the mesh: the compose node that it holds speaks to the real desk, and the leader to the real link,
 * with requests over the simulated network between them.
 */
export class SimulatedBridge {
  readonly #name: string;
  readonly #node: () => SimulatedNode;
  readonly #around: Surroundings;
  readonly #random: Random;
  #desk: AttemptDesk | undefined;

  constructor(name: string, node: () => SimulatedNode, around: Surroundings) {
    this.#name = name;
    this.#node = node;
    this.#around = around;
    this.#random = around.world.random(`bridge ${name}`);
  }

  /** The ports of a new run of the node: a crash takes the desk with it. */
  ports(boot: string): ToLeader {
    const { world } = this.#around;
    const offset = this.#random.int(0, 1_000_000);
    const desk = new AttemptDesk(boot, () => world.now + offset);
    this.#desk = desk;
    return {
      ...desk.ports,
      heartbeat: ({ draining }, attempts) => desk.ports.heartbeat(attempts, draining),
    };
  }

  /** A link as a leader keeps it for as long as it leads. */
  link(scheduler: Party, leader: LeaderCalls): BridgeLink {
    const { world, checkers, storage, breakCalls } = this.#around;
    const { incarnation } = scheduler;
    const calls = this.#calls(scheduler);
    let armed = 0;
    let link: BridgeLink;
    const arm = (): void => {
      armed += 1;
      const token = armed;
      const wake = () => {
        if (token !== armed || scheduler.incarnation !== incarnation) return false;
        const waitMs = (scheduler.frozenUntil ?? 0) - world.now;
        if (waitMs > 0) world.after(waitMs, wake);
        else link.tick(world.now);
        return waitMs <= 0;
      };
      const { nextWakeAt } = link;
      if (nextWakeAt !== Number.POSITIVE_INFINITY)
        world.after(Math.max(1, nextWakeAt - world.now), wake);
    };
    link = new BridgeLink(this.#name, {
      calls: breakCalls?.(calls) ?? calls,
      leader: this.#watched(leader, calls),
      now: () => world.now,
      prepare: async (order) => orderOf(order),
      check: async (key) =>
        storage.objects.has(`${key.jobId}/${key.attempt}`)
          ? undefined
          : { type: "SIM_MISSING", message: "the output is not there" },
      uploadLink: async () => "https://storage.example/",
      discardOutput: (key) =>
        new Promise((resolve) => {
          world.after(this.#random.int(1, 20), () => {
            storage.objects.delete(`${key.jobId}/${key.attempt}`);
            checkers.discarded(key);
            resolve(undefined);
          });
        }),
      log: (_level, text) => world.note(() => text),
      rearm: () => arm(),
    });
    arm();
    return link;
  }

  /** The leader's calls as the link makes them, seen by the checkers like those of a node of the mesh. */
  #watched(leader: LeaderCalls, calls: { statusAt: () => number }) {
    const { checkers } = this.#around;
    return {
      get: leader.get.bind(leader),
      handBack: leader.handBack.bind(leader),
      addLog: async () => undefined,
      heartbeat: async (...given: Parameters<LeaderCalls["heartbeat"]>) => {
        checkers.beat(this.#name, calls.statusAt());
        const heard = await leader.heartbeat(...given);
        // With work, contact is made by the renewals.
        if (given[1].length === 0) checkers.contact(this.#name, []);
        return heard;
      },
      complete: async (ref: Parameters<LeaderCalls["complete"]>[0]) => {
        const answer = await leader.complete(ref);
        checkers.told(ref, answer.outcome);
        return answer;
      },
      fail: async (ref: Parameters<LeaderCalls["fail"]>[0]) => {
        const answer = await leader.fail(ref);
        checkers.told(ref, answer.outcome);
        return answer;
      },
    };
  }

  #there() {
    const { agent } = this.#node();
    if (!agent || !this.#desk) throw new Error(`${this.#name} is down`);
    return { agent, desk: this.#desk };
  }

  /** A machine that stands still answers when it goes on. */
  async #newer(asked: number, waitMs: number): Promise<void> {
    const { world } = this.#around;
    const { promise, resolve } = Promise.withResolvers<void>();
    world.after(waitMs, resolve);
    const end = this.#there().desk.listen(asked, resolve);
    await promise;
    end();
    const stillMs = this.#node().frozenUntil - world.now;
    if (stillMs > 0) await new Promise<void>((resolve) => world.after(stillMs, resolve));
  }

  #calls(scheduler: Party): BridgeCalls & { statusAt: () => number } {
    const { world, network, checkers } = this.#around;
    let statusAt = 0;
    const call = <T>(handle: () => Promise<T> | T, timeoutMs = bridgeLimits.callMs): Promise<T> =>
      network.call(scheduler, this.#node(), async () => handle(), {
        timeoutMs,
        idempotent: true,
      });
    return {
      statusAt: () => statusAt,
      status: async ({ asked, wait_ms: waitMs }) => {
        const answer = await call(async () => {
          if (asked !== undefined && waitMs > 0) await this.#newer(asked, waitMs);
          const { agent, desk } = this.#there();
          const { slots } = this.#node();
          const status = desk.status(agent, { ...load, kinds: ["render"], slots });
          return { at: world.now, status };
        }, bridgeLimits.callMs + waitMs);
        statusAt = answer.at;
        return answer.status;
      },
      begin: ({ attempt, kind, payload }) =>
        call(() => {
          const { agent, desk } = this.#there();
          const { job_id: jobId, number, lease_ms: leaseMs, boot, owner } = attempt;
          const order = { jobId, attempt: number, kind, payload, owner, leaseMs, boot };
          checkers.begun(order);
          return desk.begin(agent, order);
        }, bridgeLimits.orderMs),
      attempt: (query) =>
        call(() => {
          const { agent, desk } = this.#there();
          const view = desk.attempt(agent, query);
          if (view.renewed) {
            const key = { jobId: query.job_id, attempt: query.attempt };
            world.note(() => `${this.#name} hears that ${shown(key)} is renewed`);
            checkers.contact(this.#name, [key]);
          }
          return view;
        }),
      answer: (answer) =>
        call(() => {
          world.note(() => `${this.#name} hears ${JSON.stringify(answer)}`);
          this.#there().desk.answer(answer);
        }),
      cancel: (ref) =>
        call(() => {
          const { agent, desk } = this.#there();
          world.note(() => `${this.#name} is told to stop ${ref.job_id.slice(-6)}/${ref.attempt}`);
          return desk.cancel(agent, ref);
        }),
    };
  }
}

const orderOf = (order: StartOrder) => {
  const { jobId, attempt, kind, payload, owner, leaseMs, boot } = order;
  return {
    kind,
    payload,
    attempt: {
      job_id: jobId,
      number: attempt,
      lease_ms: leaseMs,
      boot,
      owner,
      bucket: "b",
      inputs: [],
    },
  };
};

/** The limits of the node inside, as in the product. */
export const bridgeNodeLimits = { ...nodeLimits, heartbeatMs: standaloneLimits.leaseLookMs };

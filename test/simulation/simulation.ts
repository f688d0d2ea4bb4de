import type { BridgeLink } from "../../services/scheduler/bridge-link.ts";
import { type SchedulerConfig, schedulerConfig } from "../../services/scheduler/config.ts";
import type { Job, StartOrder } from "../../services/scheduler/job.types.ts";
import { removeOutputsAction } from "../../services/scheduler/job-actors.ts";
import type { BrokenRule } from "./broken-rules.ts";
import { Checkers, type Violation } from "./checkers.ts";
import { calmRates, Network } from "./network.ts";
import type { Random } from "./random.ts";
import { type Fault, leader, type Scenario, schedulerNames, type Work } from "./scenario.ts";
import { bridgeNodeLimits, SimulatedBridge } from "./simulated-bridge.ts";
import { SimulatedClient } from "./simulated-client.ts";
import { SimulatedNode, SimulatedStorage, type ToLeader } from "./simulated-node.ts";
import { type LeaderCalls, SimulatedScheduler } from "./simulated-scheduler.ts";
import { SimulatedStore } from "./simulated-store.ts";
import { World } from "./world.ts";

/** The virtual clock starts here, so that times are those of real clocks in size. */
const epoch = 1_700_000_000_000;
const callMs = 4_000;
/** No message of before the repair is on its way any more after this. */
const lateMsMax = 15_000;
const queues = ["default", "slow"];

export interface RunResult {
  violation?: Violation;
  made: Checkers["made"];
  events: number;
  virtualMs: number;
  trace: readonly string[];
}

/** One scenario with everything in it: schedulers, store, nodes, network, clients, checkers. */
class Simulation {
  readonly #scenario: Scenario;
  readonly #broken: BrokenRule | undefined;
  readonly #world: World;
  readonly #network: Network;
  readonly #checkers: Checkers;
  readonly #store: SimulatedStore;
  readonly #schedulers: SimulatedScheduler[];
  readonly #discovery: Random;
  readonly #client: SimulatedClient;
  readonly #storage = new SimulatedStorage();
  readonly #nodes = new Map<string, SimulatedNode>();
  /** Nodes outside the mesh, by name. */
  readonly #bridges = new Map<string, SimulatedBridge>();
  /** Links of each leader to them. */
  readonly #links = new WeakMap<SimulatedScheduler, ReadonlyMap<string, BridgeLink>>();
  readonly #work = new Map<number, Work>();
  readonly #config: SchedulerConfig;
  #storeWellSince: number;
  #healed = false;
  #atRest = false;

  constructor(scenario: Scenario, broken: BrokenRule | undefined, traced: boolean) {
    this.#scenario = scenario;
    this.#broken = broken;
    // Ageing is quicker than in earnest, so that its bound lies within the time that is simulated.
    this.#config = { ...schedulerConfig, agePointMs: 200, ...broken?.config };
    this.#world = new World(`${scenario.seed}/${scenario.course ?? 0}`, traced);
    this.#network = new Network(this.#world, scenario.rates);
    this.#checkers = new Checkers(
      this.#world,
      epoch,
      { leaseMs: schedulerConfig.leaseMs, sweepMs: schedulerConfig.sweepMs },
      {
        failedByPlan: (job) => this.#fateOf(job) !== "ok",
        holdsLease: (run) => this.#schedulers.some((scheduler) => scheduler.holdsLease(run)),
        fencesInserts: scenario.store.fencesInserts,
      },
    );
    this.#store = new SimulatedStore(this.#world, scenario.store, this.#checkers);
    const { slow, lostAnswers } = scenario.store;
    this.#storeWellSince = slow + lostAnswers > 0 ? Number.POSITIVE_INFINITY : 0;
    this.#schedulers = schedulerNames(scenario.schedulers).map((name) => this.#makeScheduler(name));
    this.#discovery = this.#world.random("discovery");
    const find = () => this.#knownLeader();
    this.#client = new SimulatedClient(this.#world, this.#network, find, this.#checkers);
    for (const node of scenario.nodes) {
      if (node.bridge) this.#bridges.set(node.name, this.#makeBridge(node.name));
      this.#nodes.set(node.name, this.#makeNode(node.name, node.slots));
    }
  }

  async run(): Promise<RunResult> {
    const { healMs, operations, faults } = this.#scenario;
    for (const scheduler of this.#schedulers) scheduler.start();
    for (const node of this.#nodes.values()) node.start();
    for (const operation of operations) {
      if (operation.type === "submit") this.#work.set(operation.job, operation.work);
      this.#client.perform(operation);
    }
    this.#startRush();
    for (const fault of faults) this.#world.after(fault.atMs, () => this.#inflict(fault));
    this.#world.after(healMs, () => this.#heal());
    this.#world.after(1_000, () => this.#watch());
    const limitMs = this.#limitMs();
    await this.#world.run(limitMs, () => this.#atRest || this.#checkers.violation !== undefined);
    if (!this.#checkers.violation) await this.#judge();
    return {
      violation: this.#checkers.violation,
      made: this.#checkers.made,
      events: this.#world.events,
      virtualMs: this.#world.now,
      trace: this.#world.trace,
    };
  }

  /** Time for every job to use up all its attempts one after the other, on one slot. */
  #limitMs(): number {
    const { healMs, operations, rush } = this.#scenario;
    let limitMs = Math.max(healMs + lateMsMax, rush ? rush.untilMs + 30_000 : 0) + 90_000;
    for (const operation of operations)
      if (operation.type === "submit") limitMs += operation.work.attempts.length * 50_000 + 20_000;
    return limitMs;
  }

  #fateOf(job: Job): Work["attempts"][number] {
    const work = this.#work.get(job.spec.payload["job"] as number);
    const { attempt } = job.history;
    return work?.attempts[Math.min(attempt, work.attempts.length) - 1] ?? "ok";
  }

  /** Who is taken for the leader: the latest term that discovery tells of, an earlier one by who has not heard yet. */
  #knownLeader(): SimulatedScheduler | undefined {
    if (this.#discovery.chance(0.03)) return this.#discovery.pick(this.#schedulers);
    const announced = this.#schedulers.filter((each) => each.announced);
    if (announced.length > 1 && this.#discovery.chance(0.3)) return this.#discovery.pick(announced);
    const terms = announced.map(({ announced }) => announced?.term ?? 0);
    return announced[terms.indexOf(Math.max(...terms))];
  }

  /** Who leads in fact, if anybody does. */
  #actualLeader(): SimulatedScheduler {
    const schedulers = this.#schedulers as [SimulatedScheduler];
    return schedulers.find((each) => each.holdsLease(each.run)) ?? schedulers[0];
  }

  #makeScheduler(name: string): SimulatedScheduler {
    const broken = this.#broken;
    return new SimulatedScheduler({
      name,
      world: this.#world,
      epoch,
      store: this.#store,
      config: this.#config,
      wrapCalls: broken?.wrapCalls && ((calls) => broken.wrapCalls?.(calls, this.#store) ?? calls),
      wrapStore: broken?.wrapStore,
      wrapLeaderPorts: broken?.wrapLeaderPorts,
      led: (self, leader) => {
        const links = new Map(
          [...this.#bridges].map(([name, bridge]) => [name, bridge.link(self, leader)]),
        );
        this.#links.set(self, links);
        return () => {
          for (const link of links.values()) link.close();
          this.#links.delete(self);
        };
      },
      ports: (leader) => {
        const options = { timeoutMs: 5_000, idempotent: true };
        const nodeOf = (name: string) => this.#nodes.get(name) as SimulatedNode;
        const agentOf = (node: SimulatedNode) => {
          if (!node.agent) throw new Error(`${node.name} is down`);
          return node.agent;
        };
        const linkTo = (name: string) => {
          const link = this.#links.get(leader)?.get(name);
          if (!link && this.#bridges.has(name)) throw new Error(`${name} has no link`);
          return link;
        };
        return {
          begin: async (name: string, order: StartOrder) => {
            const link = linkTo(name);
            if (link) return link.begin(order);
            const node = nodeOf(name);
            const handle = async () => {
              this.#checkers.begun(order);
              const answer = await agentOf(node).begin(order);
              this.#world.note(
                () => `${name} answers order ${names([order])}: ${JSON.stringify(answer)}`,
              );
              return answer;
            };
            return this.#network.call(leader, node, handle, options);
          },
          halt: async (name: string, ref: { jobId: string; attempt: number; reason: string }) => {
            const link = linkTo(name);
            if (link) return link.halt(ref);
            const node = nodeOf(name);
            const handle = async () => {
              this.#world.note(() => `${name} is told to stop ${names([ref])}: ${ref.reason}`);
              return agentOf(node).halt(ref, ref.reason);
            };
            return this.#network.call(leader, node, handle, options);
          },
          probe: async (name: string) => {
            const link = linkTo(name);
            if (link) return link.probe();
            const node = nodeOf(name);
            return this.#network.call(leader, node, async () => agentOf(node).probe(), options);
          },
          deliver: ({ action, params }: { action: string; params: Record<string, unknown> }) => {
            if (action === removeOutputsAction) {
              const remove = async () => this.#storage.removeOutputs(params as never);
              return this.#network.call(leader, this.#client, remove, options);
            }
            const { id, state } = params["job"] as { id: string; state: string };
            const handle = async () => this.#checkers.callback(id, state);
            return this.#network.call(leader, this.#client, handle, options);
          },
        };
      },
    });
  }

  #makeNode(name: string, slots: number): SimulatedNode {
    return new SimulatedNode({
      name,
      slots,
      world: this.#world,
      leader: (node) => this.#bridges.get(name)?.ports(node.boot) ?? this.#toLeader(node),
      limits: this.#bridges.has(name) ? bridgeNodeLimits : undefined,
      storage: this.#storage,
      checkers: this.#checkers,
      workOf: (order) =>
        this.#work.get(order.payload["job"] as number) ?? { attempts: ["ok"], durationMs: 10 },
      faults: this.#broken?.node ?? {},
    });
  }

  #makeBridge(name: string): SimulatedBridge {
    return new SimulatedBridge(name, () => this.#nodes.get(name) as SimulatedNode, {
      world: this.#world,
      network: this.#network,
      checkers: this.#checkers,
      storage: this.#storage,
      breakCalls: this.#broken?.bridge,
    });
  }

  #toLeader(node: SimulatedNode): ToLeader {
    const { boot } = node;
    const call = async <T>(handle: (leader: LeaderCalls, run: string) => Promise<T>) => {
      const leader = this.#knownLeader();
      if (!leader) throw new Error("no scheduler is known");
      const options = { timeoutMs: callMs, idempotent: true };
      const handler = async () => handle(leader.calls(), leader.run);
      return this.#network.call<T>(node, leader, handler, options);
    };
    return {
      heartbeat: async (report, attempts) => {
        const sentAt = this.#world.now;
        const answer = await call(async (leader, run) => {
          this.#checkers.beat(node.name, sentAt);
          const heard = await leader.heartbeat(report, attempts);
          this.#checkers.remembered(run);
          this.#world.note(
            () =>
              `${boot} beats ${report.beat}: holds [${names(attempts)}], renewed [${names(heard.renewed)}], fenced [${names(heard.fenced)}]`,
          );
          return heard;
        });
        this.#checkers.contact(node.name, answer.renewed);
        return answer;
      },
      complete: (key, result) =>
        call(async (leader) => {
          const { outcome } = await leader.complete({ ...key, node: node.name, boot, result });
          this.#checkers.told({ ...key, boot }, outcome);
          return outcome === "committed" ? "taken" : "fenced";
        }),
      fail: (key, error, retryable) =>
        call(async (leader) => {
          const ref = { ...key, node: node.name, boot, error, retryable };
          const { outcome } = await leader.fail(ref);
          this.#checkers.told({ ...key, boot }, outcome);
          return outcome === "recorded" ? "taken" : "fenced";
        }),
      handBack: async (holder, attempts, cause) => {
        await call((leader) => leader.handBack({ ...holder, attempts, cause }));
      },
      isCommitted: ({ jobId, attempt }) =>
        call(async (leader, run) => {
          const job = await leader.get(jobId);
          this.#checkers.remembered(run);
          return job.state === "success" && job.attempt === attempt;
        }),
    };
  }

  /** The process that a fault is about. */
  #target(fault: Fault): SimulatedNode | SimulatedScheduler | undefined {
    const who = "who" in fault ? fault.who : "";
    if (who === leader) return this.#actualLeader();
    return this.#nodes.get(who) ?? this.#schedulers.find(({ name }) => name === who);
  }

  #inflict(fault: Fault): void {
    if (this.#healed) return;
    const target = this.#target(fault);
    const name = target?.name ?? ("who" in fault ? fault.who : "");
    const restart = (downMs: number) =>
      this.#world.after(this.#healed ? 0 : downMs, () => target?.start());
    switch (fault.type) {
      case "crash":
        target?.crash();
        restart(fault.downMs);
        return;
      case "freeze":
        this.#world.note(() => `${name} stands still for ${fault.forMs} ms`);
        target?.freeze(this.#freezeMs(target, fault.forMs));
        return;
      case "stop":
        this.#checkers.nodeDrained(name);
        target?.stop(() => restart(fault.downMs));
        return;
      case "cut":
        this.#cutOff(name, fault.forMs, (isCut) => this.#network.cut(name, isCut));
        return;
      case "store-cut":
        this.#cutOff(`${name}, from the store,`, fault.forMs, (isCut) =>
          this.#store.cut(name, isCut),
        );
        return;
      case "drain":
        if (target instanceof SimulatedNode) this.#drain(target, fault);
        return;
      case "store-bad":
        this.#world.note(() => "the store goes bad");
        this.#store.isBad = true;
        this.#world.after(fault.forMs, () => {
          this.#store.isBad = false;
          this.#storeWell(this.#world.now);
        });
        return;
      default:
        throw new Error(`not a fault: ${JSON.stringify(fault satisfies never)}`);
    }
  }

  /** Where there may be one scheduler only, it must be well again in time for what is promised then. */
  #freezeMs(target: SimulatedNode | SimulatedScheduler, forMs: number): number {
    const restMs = this.#scenario.healMs - this.#world.now;
    return target instanceof SimulatedScheduler ? Math.min(forMs, restMs) : forMs;
  }

  #cutOff(name: string, forMs: number, cut: (isCut: boolean) => void): void {
    this.#world.note(() => `${name} is cut off`);
    cut(true);
    this.#world.after(forMs, () => {
      this.#world.note(() => `${name} is joined again`);
      cut(false);
      this.#storeWell(this.#world.now);
    });
  }

  #drain(node: SimulatedNode, { graceMs, forMs }: Fault & { type: "drain" }): void {
    if (!node.agent) return;
    this.#world.note(() => `${node.name} is drained`);
    void node.agent.drain(graceMs);
    this.#checkers.nodeDrained(node.name);
    this.#world.after(forMs, () => this.#undrain(node));
  }

  #undrain(node: SimulatedNode): void {
    node.agent?.undrain();
    this.#checkers.nodeDrained(node.name);
  }
  #storeWell(since: number): void {
    this.#storeWellSince = Math.max(this.#storeWellSince, since);
  }

  #heal(): void {
    this.#world.note(() => "everything is repaired");
    this.#healed = true;
    this.#network.rates = calmRates;
    this.#network.joinAll();
    this.#store.repair();
    // What was sent before may still be on its way.
    this.#storeWellSince = this.#world.now + lateMsMax;
    for (const scheduler of this.#schedulers) scheduler.start();
    for (const node of this.#nodes.values()) {
      node.start();
      this.#undrain(node);
    }
    this.#world.after(lateMsMax, () => this.#client.resumeAll(queues));
  }

  /** Urgent jobs of one owner without end, and one job of another that is in no hurry. */
  #startRush(): void {
    const { rush, healMs } = this.#scenario;
    if (!rush) return;
    const common = {
      type: "submit",
      queue: "default",
      delayMs: 0,
      attemptsMax: 3,
      copies: 1,
    } as const;
    const work: Work = { attempts: ["ok"], durationMs: rush.durationMs };
    const submit = (job: number, atMs: number, owner: string, priority: number) => {
      this.#work.set(job, work);
      this.#client.perform({ ...common, job, atMs, owner, priority, work });
    };
    for (let n = 0; n * rush.everyMs < rush.untilMs; n += 1)
      submit(1_000 + n, n * rush.everyMs, "rush", 1);
    submit(999, 3_000, "patient", 100);
    // Ageing takes 100 points; then owners take turns, and what was before it in its own line goes first.
    const boundMs = Math.max(healMs + lateMsMax, 3_000 + 100 * 200) + 25_000;
    this.#world.after(boundMs, () => {
      const [id] = this.#client.jobs.get(999)?.ids ?? [];
      if (id) this.#checkers.started(id, boundMs - 1);
    });
  }

  /** Looks around once a second. */
  #watch(): void {
    this.#world.after(1_000, () => this.#watch());
    for (const node of this.#nodes.values())
      this.#checkers.processes(node.name, node.boot, node.running());
    void this.#look();
  }

  #isCut({ name }: SimulatedScheduler): boolean {
    return this.#store.isCutOff(name);
  }

  async #look(): Promise<void> {
    const active: Job[] = [];
    for await (const job of this.#store.active()) active.push(job);
    const leads = this.#actualLeader();
    if (leads.frozenUntil <= this.#world.now && !this.#store.isBad && !this.#isCut(leads)) {
      const { leadsSince } = leads;
      const trustedSince = Math.max(leadsSince, leads.frozenUntil, this.#storeWellSince);
      this.#checkers.leases(active, leadsSince, trustedSince);
    }
    const { healMs } = this.#scenario;
    this.#atRest =
      this.#world.now > healMs + lateMsMax + 1_000 &&
      active.length === 0 &&
      this.#client.open === 0 &&
      [...this.#nodes.values()].every(
        (node) => node.agent?.isEmpty && node.running().length === 0,
      ) &&
      (await this.#store.outboxSize()) === 0;
  }

  async #judge(): Promise<void> {
    const accepted = new Map<string, Job | undefined>();
    for (const { ids } of this.#client.jobs.values())
      for (const id of ids) accepted.set(id, await this.#store.read(id));
    // Also those of which no client ever heard.
    for (const job of await this.#store.all()) accepted.set(job.spec.id, job);
    this.#checkers.atRest(accepted, this.#storage.objects);
  }
}

export const runScenario = (
  scenario: Scenario,
  broken?: BrokenRule,
  traced = false,
): Promise<RunResult> => new Simulation(scenario, broken, traced).run();

const names = (keys: readonly { jobId: string; attempt: number }[]): string =>
  keys.map(({ jobId, attempt }) => `${jobId.slice(-6)}/${attempt}`).join(" ");

import { type SchedulerConfig, schedulerConfig } from "../../services/scheduler/config.ts";
import type { Job, StartOrder } from "../../services/scheduler/job.types.ts";
import type { BrokenRule } from "./broken-rules.ts";
import { Checkers, type Violation } from "./checkers.ts";
import { calmRates, Network } from "./network.ts";
import type { Fault, Scenario, Work } from "./scenario.ts";
import { SimulatedClient } from "./simulated-client.ts";
import { SimulatedLeader } from "./simulated-leader.ts";
import { SimulatedNode, SimulatedStorage, type ToLeader } from "./simulated-node.ts";
import { SimulatedDisk } from "./simulated-store.ts";
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

/** One scenario with everything in it: leader, disk, nodes, network, clients, checkers. */
class Simulation {
  readonly #scenario: Scenario;
  readonly #broken: BrokenRule | undefined;
  readonly #world: World;
  readonly #network: Network;
  readonly #checkers: Checkers;
  readonly #disk: SimulatedDisk;
  readonly #leader: SimulatedLeader;
  readonly #client: SimulatedClient;
  readonly #storage = new SimulatedStorage();
  readonly #nodes = new Map<string, SimulatedNode>();
  readonly #work = new Map<number, Work>();
  readonly #config: SchedulerConfig;
  #diskWellSince = 0;
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
      (job) => this.#fateOf(job) !== "ok",
    );
    this.#disk = new SimulatedDisk(this.#world, (before, after) =>
      this.#checkers.committed(before, after),
    );
    this.#leader = this.#makeLeader();
    this.#client = new SimulatedClient(this.#world, this.#network, this.#leader, this.#checkers);
    for (const { name, slots } of scenario.nodes)
      this.#nodes.set(name, this.#makeNode(name, slots));
  }

  async run(): Promise<RunResult> {
    const { healMs, operations, faults } = this.#scenario;
    this.#leader.start();
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

  #makeLeader(): SimulatedLeader {
    const broken = this.#broken;
    return new SimulatedLeader({
      world: this.#world,
      epoch,
      disk: this.#disk,
      config: this.#config,
      wrapCalls: broken?.wrapCalls && ((calls) => broken.wrapCalls?.(calls, this.#disk) ?? calls),
      wrapStore: broken?.wrapStore,
      ports: (leader) => {
        const options = { timeoutMs: 5_000, idempotent: true };
        const nodeOf = (name: string) => this.#nodes.get(name) as SimulatedNode;
        const agentOf = (node: SimulatedNode) => {
          if (!node.agent) throw new Error(`${node.name} is down`);
          return node.agent;
        };
        const ports = {
          begin: (name: string, order: StartOrder) => {
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
          halt: (name: string, ref: { jobId: string; attempt: number; reason: string }) => {
            const node = nodeOf(name);
            const handle = async () => {
              this.#world.note(() => `${name} is told to stop ${names([ref])}: ${ref.reason}`);
              return agentOf(node).halt(ref, ref.reason);
            };
            return this.#network.call(leader, node, handle, options);
          },
          probe: (name: string) => {
            const node = nodeOf(name);
            return this.#network.call(leader, node, async () => agentOf(node).probe(), options);
          },
          deliver: ({ params }: { params: Record<string, unknown> }) => {
            const { id, state } = params["job"] as { id: string; state: string };
            const handle = async () => this.#checkers.callback(id, state);
            return this.#network.call(leader, this.#client, handle, options);
          },
        };
        return broken?.wrapLeaderPorts?.(ports) ?? ports;
      },
    });
  }

  #makeNode(name: string, slots: number): SimulatedNode {
    return new SimulatedNode({
      name,
      slots,
      world: this.#world,
      leader: (node) => this.#toLeader(node),
      storage: this.#storage,
      checkers: this.#checkers,
      workOf: (order) =>
        this.#work.get(order.payload["job"] as number) ?? { attempts: ["ok"], durationMs: 10 },
      faults: this.#broken?.node ?? {},
    });
  }

  #toLeader(node: SimulatedNode): ToLeader {
    const leader = this.#leader;
    const { boot } = node;
    const call = <T>(handle: () => Promise<T>) =>
      this.#network.call(node, leader, async () => handle(), {
        timeoutMs: callMs,
        idempotent: true,
      });
    return {
      heartbeat: async (report, attempts) => {
        const sentAt = this.#world.now;
        const answer = await call(async () => {
          this.#checkers.beat(node.name, sentAt);
          const heard = await leader.calls().heartbeat(report, attempts);
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
        call(async () => {
          const { outcome } = await leader
            .calls()
            .complete({ ...key, node: node.name, boot, result });
          this.#checkers.told(key, outcome);
          return outcome === "committed" ? "taken" : "fenced";
        }),
      fail: (key, error, retryable) =>
        call(async () => {
          const { outcome } = await leader
            .calls()
            .fail({ ...key, node: node.name, boot, error, retryable });
          return outcome === "recorded" ? "taken" : "fenced";
        }),
      handBack: async (holder, attempts, cause) => {
        await call(() => leader.calls().handBack({ ...holder, attempts, cause }));
      },
      isCommitted: ({ jobId, attempt }) =>
        call(async () => {
          const job = await leader.calls().get(jobId);
          return job.state === "success" && job.attempt === attempt;
        }),
    };
  }

  #inflict(fault: Fault): void {
    if (this.#healed) return;
    const node = this.#nodes.get("who" in fault ? fault.who : "");
    switch (fault.type) {
      case "crash": {
        const target = fault.who === "leader" ? this.#leader : node;
        target?.crash();
        this.#world.after(fault.downMs, () => target?.start());
        return;
      }
      case "freeze":
        this.#world.note(() => `${fault.who} stands still for ${fault.forMs} ms`);
        node?.freeze(fault.forMs);
        return;
      case "stop":
        this.#checkers.nodeDrained(fault.who);
        node?.stop(() => this.#world.after(fault.downMs, () => node.start()));
        return;
      case "cut":
        this.#world.note(() => `${fault.who} is cut off`);
        this.#network.cut(fault.who, true);
        this.#world.after(fault.forMs, () => {
          this.#world.note(() => `${fault.who} is joined again`);
          this.#network.cut(fault.who, false);
        });
        return;
      case "drain":
        if (!node?.agent) return;
        this.#world.note(() => `${fault.who} is drained`);
        void node.agent.drain(fault.graceMs);
        this.#checkers.nodeDrained(fault.who);
        this.#world.after(fault.forMs, () => this.#undrain(node));
        return;
      case "disk":
        this.#world.note(() => "the disk goes bad");
        this.#disk.isBad = true;
        this.#world.after(fault.forMs, () => this.#repairDisk());
        return;
      default:
        throw new Error(`not a fault: ${JSON.stringify(fault satisfies never)}`);
    }
  }

  #undrain(node: SimulatedNode): void {
    node.agent?.undrain();
    this.#checkers.nodeDrained(node.name);
  }
  #repairDisk(): void {
    this.#disk.isBad = false;
    this.#diskWellSince = this.#world.now;
  }

  #heal(): void {
    this.#world.note(() => "everything is repaired");
    this.#healed = true;
    this.#network.rates = calmRates;
    this.#network.joinAll();
    this.#repairDisk();
    this.#leader.start();
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

  async #look(): Promise<void> {
    const active: Job[] = [];
    for await (const job of this.#disk.active()) active.push(job);
    if (this.#leader.isUp && !this.#disk.isBad) {
      const trustedSince = Math.max(this.#leader.upSince, this.#diskWellSince);
      this.#checkers.leases(active, trustedSince);
    }
    const { healMs } = this.#scenario;
    this.#atRest =
      this.#world.now > healMs + lateMsMax + 1_000 &&
      active.length === 0 &&
      this.#client.open === 0 &&
      [...this.#nodes.values()].every(
        (node) => node.agent?.isEmpty && node.running().length === 0,
      ) &&
      (await this.#disk.outboxSize()) === 0;
  }

  async #judge(): Promise<void> {
    const accepted = new Map<string, Job | undefined>();
    for (const { ids } of this.#client.jobs.values())
      for (const id of ids) accepted.set(id, await this.#disk.read(id));
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

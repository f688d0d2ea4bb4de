import type { Service, ServiceBroker } from "moleculer";
import { type ServiceHost, systemActor } from "../../lib/service.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { BridgeLinks, configuredBridges } from "./bridge-links.ts";
import { schedulerConfig } from "./config.ts";
import { jobMeterOf } from "./job-meter.ts";
import type { JobStore } from "./job-store.ts";
import { Leader, type LeaderPorts } from "./leader.ts";
import { schedulerContract } from "./scheduler.contract.ts";
import { schedulerOf } from "./scheduler.service.ts";
import { WakeTimer } from "./wake-timer.ts";

interface Lease {
  holdsLease(term: number): boolean;
  deposed(term: number): void;
}

interface Term {
  number: number;
  isOver: boolean;
  leader?: Leader;
  timer?: WakeTimer;
  service?: Service;
}

/** A service that is not in the registry by then has failed to start. */
const REGISTERED_MS_MAX = 10_000;

/** Resolves when the service is in the registry of this node: its calls find it then. */
function registered(broker: ServiceBroker, name: string): Promise<void> {
  const services = (
    broker.registry as unknown as { services: { has(name: string, node: string): boolean } }
  ).services;
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      broker.localBus.off("$services.changed", look);
    };
    const timer = setTimeout(() => {
      end();
      reject(new Error(`the service ${name} did not start`));
    }, REGISTERED_MS_MAX);
    const look = () => {
      if (!services.has(name, broker.nodeID)) return;
      end();
      resolve();
    };
    broker.localBus.on("$services.changed", look);
  });
}

/** What a node does while it leads: a leader on the store, and the service `scheduler` that callers find by discovery. */
export class LeaderOffice {
  readonly #host: ServiceHost;
  readonly #store: JobStore;
  readonly #lease: Lease;
  readonly #bridges: BridgeLinks;
  #term: Term | undefined;

  constructor(host: ServiceHost, store: JobStore, lease: Lease) {
    this.#host = host;
    this.#store = store;
    this.#lease = lease;
    this.#bridges = new BridgeLinks(host);
  }

  /** Resolves when calls are answered, or at once when the term is over in the meantime. */
  async open(number: number): Promise<void> {
    const { broker, logger, config } = this.#host;
    const timer = new WakeTimer((error) => logger.error("tick failed", error));
    const term: Term = { number, isOver: false, timer };
    this.#term = term;
    const meter = jobMeterOf(config);
    meter?.rest();
    const leader = await Leader.open(this.#ports(number, () => timer.rearm()));
    term.leader = leader;
    if (term.isOver) {
      leader.close();
      return;
    }
    const found = registered(broker, schedulerContract.name);
    term.service = broker.createService(schedulerOf(leader, number).schema({ config }));
    timer.start(leader);
    this.#bridges.lead(leader, configuredBridges(config));
    meter?.lead(leader, number);
    await found;
  }

  /** Nothing more is placed or sent from here on; calls that come in the meantime hear NOT_LEADER. */
  async close(number: number): Promise<void> {
    const term = this.#term;
    if (term?.number !== number) return;
    this.#term = undefined;
    term.isOver = true;
    term.timer?.stop();
    this.#bridges.stop();
    term.leader?.close();
    jobMeterOf(this.#host.config)?.rest();
    try {
      if (term.service) await this.#host.broker.destroyService(term.service);
    } catch (error) {
      this.#host.logger.warn(`the scheduler's service did not end in order: ${error}`);
    }
  }

  /** The leader's ports over the mesh. A call that gets no answer rejects: the leader takes it as unknown. */
  #ports(term: number, rearm: () => void): LeaderPorts {
    const { broker, call, config, logger } = this.#host;
    const { nodeCallMs, deliveryCallMs } = schedulerConfig;
    return {
      store: this.#store,
      term,
      holdsLease: () => this.#lease.holdsLease(term),
      deposed: () => this.#lease.deposed(term),
      now: steadyNow,
      random: Math.random,
      ...this.#bridges.route({
        begin: (node, order) =>
          call("compose.begin", order, {
            nodeID: node,
            timeout: nodeCallMs,
            headers: order.trace === undefined ? undefined : { traceparent: order.trace },
          }),
        halt: (node, ref) => call("compose.halt", ref, { nodeID: node, timeout: nodeCallMs }),
        probe: (node) => call("compose.probe", {}, { nodeID: node, timeout: nodeCallMs }),
      }),
      // The action's name is data, given by the service that submitted the job: no type can know it.
      deliver: ({ action, params }) =>
        broker.call(action, params, { timeout: deliveryCallMs, meta: { actor: systemActor } }),
      log: (level, text) => logger[level](text),
      metrics: jobMeterOf(config),
      rearm,
    };
  }
}

import type { ServiceBroker } from "moleculer";
import type { Config, Role } from "../../lib/config.ts";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { asAppError } from "../../lib/errors.ts";
import { type ActionName, systemCall } from "../../lib/service.ts";
import { schedulerConfig } from "../scheduler/config.ts";
import { healthLimits } from "./config.ts";
import {
  composeFinding,
  type Finding,
  findingOf,
  type LeaderView,
  leaderFinding,
  type ReadinessReport,
} from "./readiness.policy.ts";
import { bounded, ReportKeeper } from "./report-keeper.ts";

type Look = Pick<Finding, "state" | "reason" | "leader">;

interface Check {
  name: string;
  /** Roles whose nodes look at it, and those that cannot serve without it. */
  roles: readonly Role[];
  essentialTo: readonly Role[];
  affects: string;
  look(at: Place): Promise<Look> | Look;
}

interface Place {
  broker: ServiceBroker;
  config: Config;
  nodes: NodesLook;
}
interface Transport {
  connected: boolean;
  client?: { rtt?: () => Promise<number> };
}
type NodesLook = () => Promise<readonly { draining: boolean; lastSeenMs: number }[]>;

/** An id that nothing has: looking it up goes all the way to the store and finds nothing. */
const NOBODY = "00000000-0000-7000-8000-000000000000";
const ok: Look = { state: "ok" };

const isServed = (broker: ServiceBroker, action: ActionName) =>
  (
    broker.registry as unknown as { actions: { isAvailable(name: string): boolean } }
  ).actions.isAvailable(action);

/** An answer of any kind but "cannot" shows that the store behind an action works. */
async function answers(
  { broker }: Place,
  action: ActionName,
  run: () => Promise<unknown>,
  expected?: string,
): Promise<Look> {
  if (!isServed(broker, action))
    return { state: "down", reason: `no running node serves ${action}` };
  try {
    await run();
    return ok;
  } catch (error) {
    const type = asAppError(error)?.type ?? (error as { type?: string })?.type;
    if (expected !== undefined && type === expected) return ok;
    return { state: "down", reason: `${action}: ${type ?? "failed"}` };
  }
}

const timeout = healthLimits.checkMs;

const checks: readonly Check[] = [
  {
    name: "messaging",
    roles: ["gateway", "platform", "scheduler", "compose", "fleet", "publish"],
    essentialTo: ["gateway", "platform", "scheduler", "compose", "fleet", "publish"],
    affects: "no other node of the mesh can be reached",
    look: async ({ broker, config }) => {
      if (config.TRANSPORTER === undefined) return ok;
      const line = (broker.transit as unknown as { tx?: Transport } | undefined)?.tx;
      const away: Look = { state: "down", reason: "not connected to the messaging server" };
      if (!line?.connected) return away;
      // The NATS client hides a cut line while it looks for the server: only an answer shows that it is there.
      return line.client?.rtt
        ? line.client.rtt().then(
            () => ok,
            () => away,
          )
        : ok;
    },
  },
  {
    name: "sign-in",
    roles: ["gateway"],
    essentialTo: ["gateway"],
    affects: "no token can be checked: only public routes answer",
    look: (place) =>
      answers(place, "auth.verify", () =>
        systemCall(place.broker)("auth.verify", { token: NOBODY }, { timeout }),
      ),
  },
  {
    name: "records",
    roles: ["gateway", "platform"],
    essentialTo: ["gateway", "platform"],
    affects: "no resource can be read or changed",
    look: (place) =>
      answers(
        place,
        "agent.app.get",
        () => systemCall(place.broker)("agent.app.get", { id: NOBODY }, { timeout }),
        "NOT_FOUND",
      ),
  },
  {
    name: "objects",
    roles: ["gateway", "platform", "compose"],
    essentialTo: [],
    affects: "no file can be stored or read; renders wait",
    look: (place) => {
      const bucket = place.config.OSS_BUCKET_NAME;
      const ref = { bucket, key: `health/${NOBODY}` };
      return answers(
        place,
        "storage.stat",
        () => systemCall(place.broker)("storage.stat", ref, { timeout }),
        "OBJECT_NOT_FOUND",
      );
    },
  },
  {
    name: "scheduler",
    roles: ["gateway", "platform", "scheduler", "compose"],
    essentialTo: [],
    affects: "no job is accepted, started or ended",
    look: (place) => answers(place, "scheduler.nodes", place.nodes),
  },
  {
    name: "scheduler leader",
    roles: ["gateway", "scheduler"],
    essentialTo: [],
    affects: "jobs wait until another node leads",
    look: async ({ broker }) =>
      leaderFinding(await leaderViews(broker), schedulerConfig.leaderLeaseMs),
  },
  {
    name: "compose nodes",
    roles: ["gateway", "scheduler"],
    essentialTo: [],
    affects: "accepted jobs wait",
    look: async (place) => {
      if (!isServed(place.broker, "scheduler.nodes"))
        return { state: "down", reason: "no scheduler that knows them" };
      const nodes = await place.nodes().catch(() => undefined);
      if (!nodes) return { state: "down", reason: "the scheduler does not answer" };
      return composeFinding(nodes, healthLimits.nodeFreshMs);
    },
  },
];

/** All of them are asked: one that stands by may know of a change later than another. */
async function leaderViews(broker: ServiceBroker): Promise<LeaderView[]> {
  const { actions } = broker.registry as unknown as {
    actions: { get(name: string): { endpoints: { id: string }[] } | undefined };
  };
  const name = "schedulerElection.status";
  const nodes = (actions.get(name)?.endpoints ?? []).map(({ id }) => id);
  const answers = await Promise.allSettled(
    // One that is gone must not take the time of the whole look.
    nodes.map((nodeID) => systemCall(broker)(name, {}, { timeout: timeout / 2, nodeID })),
  );
  return answers.flatMap((one) => {
    if (one.status === "rejected") return [];
    const { role, holder, term, lastRenewedMs } = one.value;
    return [{ role, holder, term, lastRenewedMs }];
  });
}

/** Looks at what this node depends on, all at once, at most once in a while, and keeps since when it is so. */
export class Readiness {
  readonly #broker: ServiceBroker;
  readonly #config: Config;
  readonly #reports: ReportKeeper;

  constructor(broker: ServiceBroker, config: Config) {
    this.#broker = broker;
    this.#config = config;
    this.#reports = new ReportKeeper(broker.nodeID, config.SERVICES, () => this.#look());
  }

  read(): Promise<ReadinessReport> {
    return this.#reports.read();
  }

  async #look(): Promise<Finding[]> {
    const { SERVICES } = this.#config;
    const due = checks.filter(({ roles }) => roles.some((role) => SERVICES.includes(role)));
    let asked: ReturnType<NodesLook> | undefined;
    const nodes: NodesLook = () => {
      asked ??= systemCall(this.#broker)("scheduler.nodes", {}, { timeout }).then(
        (answer) => answer.nodes,
      );
      return asked;
    };
    const place: Place = { broker: this.#broker, config: this.#config, nodes };
    const looked = await Promise.all(
      due.map(async ({ name, affects, essentialTo, look }): Promise<Finding> => {
        const essential = essentialTo.some((role) => SERVICES.includes(role));
        const found: Look = this.#broker.started
          ? await bounded((async () => look(place))())
          : { state: "down", reason: "this node is starting" };
        return { name, affects: [affects], essential, ...found };
      }),
    );
    return [...looked, ...dependenciesOf(this.#config).list().map(findingOf)];
  }
}

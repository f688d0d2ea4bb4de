// The product as a cluster for the job benchmark: scheduler and compose nodes as processes over NATS, jobs in MongoDB.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { ServiceBroker } from "moleculer";
import mongoose from "mongoose";
import { brokerOptions } from "../lib/broker-options.ts";
import { loadConfig } from "../lib/config.ts";
import { systemCall } from "../lib/service.ts";
import { ClusterProcess } from "../scripts/cluster/cluster-process.ts";
import type { Contestant, Load, Started } from "./jobs-measure.ts";
import { Listeners, nodeWithoutJournal, started } from "./jobs-product.ts";

/** Addresses of the servers that the cluster uses. */
export interface ClusterServers {
  TRANSPORTER: string;
  MONGO_URL: string;
}

const COMPOSE_NODES = 2;
/** How often the end of jobs is looked for where no node of this process runs them. */
const LOOK_MS = 20;

const DURABILITY = "majority and journal before the answer (MongoDB)";

/** One run's processes, and a broker of this process in their mesh. */
async function openMesh(servers: ClusterServers, dir: string, composeSlots?: number) {
  const name = `bench-${randomBytes(5).toString("hex")}`;
  const mongo = new URL(servers.MONGO_URL);
  mongo.pathname = `/${name}`;
  const env = {
    TRANSPORTER: servers.TRANSPORTER,
    NAMESPACE: name,
    MONGO_URL: mongo.href,
    LOG_LEVEL: "error",
    MESH_KEY: name,
    STORAGE_SECRET: name,
  };
  const plans = [
    { name: "scheduler", role: "scheduler", env: { ...env, SERVICES: "scheduler" } },
    ...Array.from({ length: composeSlots === undefined ? 0 : COMPOSE_NODES }, (_, n) => ({
      name: `compose-${n}`,
      role: "compose",
      env: {
        ...env,
        MONGO_URL: "",
        SERVICES: "compose",
        RENDER_SLOTS: String((composeSlots ?? 0) / COMPOSE_NODES),
      },
    })),
  ];
  const processes = plans.map((plan) => new ClusterProcess(plan, dir));
  const { config } = loadConfig({ ...env, MONGO_URL: "", DATA_DIR: join(dir, "client") });
  const broker = new ServiceBroker(brokerOptions({ ...config, NODE_ID: "client" }));
  const stop = async () => {
    await broker.stop();
    for (const process of processes) await process.close();
    const client = await mongoose.mongo.MongoClient.connect(mongo.href);
    await client
      .db()
      .dropDatabase()
      .finally(() => client.close());
  };
  try {
    for (const process of processes) await process.start();
  } catch (error) {
    await stop().catch(() => {});
    throw error;
  }
  return { broker, stop };
}

/** Resolves when so many nodes have reported. */
async function nodesReported(broker: ServiceBroker, count: number): Promise<void> {
  const call = systemCall(broker);
  for (let tries = 0; tries < 600; tries++) {
    if ((await call("scheduler.nodes", {})).nodes.length >= count) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("the compose nodes have not reported");
}

/** Scheduler in a process of its own; the node that does nothing is here, as the others' workers are. */
export const clusterContestant = (servers: ClusterServers): Contestant => ({
  name: "reelmesh cluster, node without journal",
  durability: DURABILITY,
  async start(dataDir: string, { slots }: Load): Promise<Started> {
    const { broker, stop } = await openMesh(servers, dataDir);
    const listeners = new Listeners();
    const leave = await nodeWithoutJournal(broker, slots, {
      start: (at, id) => listeners.start(at, id),
      end: () => listeners.end(),
    });
    return {
      ...started(broker, listeners),
      async stop() {
        leave();
        await stop();
      },
    };
  },
});

/** Scheduler and compose nodes as they ship, each in a process of its own. */
export const wholeClusterContestant = (servers: ClusterServers): Contestant => ({
  name: `reelmesh cluster, ${COMPOSE_NODES} compose processes`,
  durability: `${DURABILITY}, node journals with fsync`,
  async start(dataDir: string, { slots }: Load): Promise<Started> {
    const { broker, stop } = await openMesh(servers, dataDir, slots);
    await broker.start();
    await broker.waitForServices("scheduler", 30_000, 20);
    await nodesReported(broker, COMPOSE_NODES);
    const call = systemCall(broker);
    let ended = () => {};
    let known = 0;
    let isOver = false;
    const look = async () => {
      while (!isOver) {
        const { queues } = await call("scheduler.stats", {});
        const count = queues["default"]?.success ?? 0;
        for (; known < count; known += 1) ended();
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    };
    const looking = look();
    return {
      submit: () => call("scheduler.submit", { kind: "noop", payload: {} }),
      onEnd: (listener) => {
        ended = listener;
      },
      async stop() {
        isOver = true;
        await looking;
        await stop();
      },
    };
  },
});

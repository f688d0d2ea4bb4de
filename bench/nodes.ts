// What the heartbeats of many compose nodes cost the scheduler: real NATS, a scheduler in a process of its own.
// npm run bench:nodes [-- --nodes 50 --seconds 60]
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { ServiceBroker } from "moleculer";
import { brokerOptions } from "../lib/broker-options.ts";
import { loadConfig } from "../lib/config.ts";
import { systemCall } from "../lib/service.ts";
import { ClusterProcess } from "../scripts/cluster/cluster-process.ts";
import { startServers } from "../scripts/servers/start-servers.ts";
import { schedulerConfig } from "../services/scheduler/config.ts";
import { round } from "./jobs-measure.ts";
import { machineText } from "./machine.ts";

const { values } = parseArgs({
  options: {
    nodes: { type: "string", default: "50" },
    seconds: { type: "string", default: "60" },
    report: { type: "string", default: "bench/reports/nodes" },
  },
});
const [count, seconds] = [Number(values.nodes), Number(values.seconds)];

/** Clock ticks a second of the figures in /proc, on every Linux that Node runs on. */
const TICKS = 100;

/** Seconds of processor time that a process has used. */
async function usedS(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Share of one core that a process uses over some time, in percent. */
async function corePercent(pid: number): Promise<number> {
  const [from, before] = [performance.now(), await usedS(pid)];
  await pause(seconds * 1_000);
  return round((((await usedS(pid)) - before) / ((performance.now() - from) / 1_000)) * 100, 2);
}

/** A node as the scheduler sees one: in the mesh, with a load, reporting on time. */
async function simulatedNode(env: Record<string, string>, dir: string, n: number) {
  const { config } = loadConfig({ ...env, NODE_ID: `node-${n}`, DATA_DIR: join(dir, "nodes") });
  const broker = new ServiceBroker(brokerOptions(config));
  broker.createService({
    name: "compose",
    actions: {
      begin: () => ({ outcome: "refused", reason: "it only reports" }),
      halt: () => ({}),
      probe: () => ({ boot: `boot-${n}` }),
    },
  });
  await broker.start();
  const call = systemCall(broker);
  let number = 0;
  const beat = () => {
    number += 1;
    const report = {
      node: broker.nodeID,
      boot: `boot-${n}`,
      beat: number,
      kinds: ["timeline", "compose", "enhance", "noop"],
      slots: 1,
      cpuPercent: (n * 7 + number) % 100,
      memoryPercent: 40,
      gpu: { count: 1, idle: 1, usedPercent: 0 },
      draining: false,
    };
    return call("scheduler.heartbeat", { report, attempts: [] });
  };
  await broker.waitForServices("scheduler", 30_000, 50);
  await beat();
  const timer = setInterval(() => void beat().catch(() => {}), schedulerConfig.heartbeatMs);
  return async () => {
    clearInterval(timer);
    await broker.stop();
  };
}

const dir = await mkdtemp(join(tmpdir(), "reelmesh-nodes-"));
const servers = await startServers({ only: ["nats", "mongo"] });
const ends: (() => Promise<unknown>)[] = [() => servers.stop()];
try {
  const name = `bench-${randomBytes(5).toString("hex")}`;
  const mongo = new URL(servers.env["MONGO_URL"] as string);
  mongo.pathname = `/${name}`;
  const mesh = {
    TRANSPORTER: servers.env["TRANSPORTER"] as string,
    NAMESPACE: name,
    LOG_LEVEL: "error",
    MESH_KEY: name,
  };
  const scheduler = new ClusterProcess(
    {
      name: "scheduler",
      role: "scheduler",
      env: { ...mesh, MONGO_URL: mongo.href, SERVICES: "scheduler" },
    },
    dir,
  );
  ends.push(() => scheduler.close());
  await scheduler.start();
  const pid = scheduler.pid as number;
  await pause(5_000);
  const alone = await corePercent(pid);
  console.log(`scheduler alone: ${alone} % of a core`);
  for (let n = 0; n < count; n += 1) ends.push(await simulatedNode(mesh, dir, n));
  await pause(5_000);
  const withNodes = await corePercent(pid);
  const machine = machineText();
  const text = [
    "# Heartbeats of many nodes",
    "",
    `\`npm run bench:nodes -- --nodes ${count} --seconds ${seconds}\``,
    "",
    "| | share of one core |",
    "| --- | ---: |",
    `| scheduler alone, renewing its lease in the store | ${alone} % |`,
    `| with ${count} nodes that report every ${schedulerConfig.heartbeatMs / 1_000} s, and Moleculer's own heartbeats | ${withNodes} % |`,
    `| **the nodes' share** | **${round(withNodes - alone, 2)} %** |`,
    "",
    `${machine}. The nodes are brokers of one other process, each with a connection of its own to NATS.`,
    "",
  ].join("\n");
  await mkdir("bench/reports", { recursive: true });
  await writeFile(`${values.report}.md`, text);
  console.log(text);
} finally {
  for (const end of ends.reverse()) await end().catch(() => {});
  await rm(dir, { recursive: true, force: true });
}

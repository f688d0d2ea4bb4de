import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Cluster, type ClusterSize } from "./cluster/cluster.ts";
import { stopSignal } from "./cluster/stop-signal.ts";

const HELP = `Usage: npm run cluster [-- OPTIONS]

Starts NATS, Redis, a store that speaks MongoDB's wire protocol, an S3 server and several processes of each role on this
machine, prints where they are, and stops all of it with Ctrl-C. Servers that are given by TRANSPORTER, REDIS_URL,
MONGO_URL or S3_ENDPOINT are used instead.

  --gateways N --platforms N --schedulers N --composes N   processes of each role (2, 1, 2, 2)
  --dir DIR    where data and logs go; kept afterwards (default: a temporary directory, removed)
  --chaos      pulls plugs while clients submit jobs, then prints a report (the same as npm run chaos)
  --help
`;

const count = (name: string, text: string | undefined, preset: number) => {
  const value = text === undefined ? preset : Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 16)
    throw new TypeError(`--${name} must be a whole number from 1 to 16, not ${text}`);
  return value;
};

async function serve(size: ClusterSize, dir: string): Promise<void> {
  const cluster = await Cluster.start({ dir, size, log: (text) => console.log(`  ${text}`) });
  const rows = [
    ...cluster.urls.map((url, n) => [`gateway-${n + 1}`, `${url}/docs`]),
    ["MCP token", cluster.env["MCP_TOKEN"] ?? ""],
    ["administrator", `admin, password ${cluster.env["ADMIN_PASSWORD"]}`],
    ...Object.entries(cluster.servers.env).map(([name, value]) => [name, value]),
    ["logs", dir],
  ];
  console.log(`\nThe cluster serves (${cluster.processes.length} processes):\n`);
  for (const [name, value] of rows) console.log(`  ${name?.padEnd(20)} ${value}`);
  console.log("\nCtrl-C stops it.");
  await stopSignal();
  console.log("stopping");
  await cluster.stop();
}

try {
  const { values } = parseArgs({
    options: {
      gateways: { type: "string" },
      platforms: { type: "string" },
      schedulers: { type: "string" },
      composes: { type: "string" },
      dir: { type: "string" },
      chaos: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
    // The options of a chaos run are checked where they are known.
    strict: !process.argv.includes("--chaos"),
  }) as { values: Record<string, string | undefined> };
  if (values.help) console.log(HELP);
  else if (values.chaos) await import("./chaos.ts");
  else {
    const size = {
      gateway: count("gateways", values.gateways, 2),
      platform: count("platforms", values.platforms, 1),
      scheduler: count("schedulers", values.schedulers, 2),
      compose: count("composes", values.composes, 2),
    };
    const own = values.dir ? undefined : await mkdtemp(join(tmpdir(), "reelmesh-cluster-"));
    try {
      await serve(size, values.dir ?? (own as string));
    } finally {
      if (own) await rm(own, { recursive: true, force: true });
    }
  }
} catch (error) {
  console.error(`reelmesh: ${(error as Error).message}`);
  process.exitCode = 1;
}

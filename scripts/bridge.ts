import { parseArgs } from "node:util";
import { ConfigError, loadConfig } from "../lib/config.ts";
import packageJson from "../package.json" with { type: "json" };
import { isLoopback } from "../services/compose/standalone/loopback.policy.ts";
import { type RunningBridge, startBridge } from "../services/compose/standalone/start-bridge.ts";

const HELP = `Usage: npm run bridge

Starts a composition bridge alone, for a GPU host that the other nodes can reach by HTTP only, or
that somebody else runs. It needs no messaging server and no database; running work is journaled
in DATA_DIR, so that a crash leaves nothing behind. It serves until Ctrl-C.

  On the GPU host   HOST=0.0.0.0 PORT=3100 BRIDGE_TOKEN=<secret> npm run bridge
  On the scheduler  BRIDGE_URL=http://gpu-host:3100 BRIDGE_TOKEN=<the same> npm start

The bridge itself reaches out for media only: to the addresses that a task names, and to the links
of the product's storage. PUBLIC_URL of the product (or its S3 server) must therefore be an address
that the bridge reaches; where it is not, the job's error says so.

  HOST, PORT      where it listens; beyond this machine only with BRIDGE_TOKEN, best behind TLS
  BRIDGE_TOKEN    bearer token of every request but GET /healthz, /readyz and /metrics
  METRICS_TOKEN   bearer token of GET /metrics from other machines; this one needs none
  OTEL_EXPORTER_OTLP_ENDPOINT   where its part of each job's trace is sent
  DATA_DIR        its data are in the folder bridge of it
  RENDER_SLOTS    jobs at the same time
  FETCH_ALLOW     private hosts that may be fetched from: of media, and of the product's storage
  FFMPEG_PATH, LOG_LEVEL, LOG_FORMAT   as for npm start; npm run config explains them
`;

/** A stop that takes longer than this is cut short; the next start hands the work back. */
const STOP_MS = 30_000;

/** First signal: running work is stopped and handed back. Second: at once. */
function stopOnSignals(bridge: RunningBridge): void {
  let isStopping = false;
  const stop = async () => {
    if (isStopping) return;
    isStopping = true;
    // One Ctrl-C may arrive twice: from the terminal and from the script that started this one.
    setTimeout(() => {
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
        process.once(signal, () => process.exit(130));
    }, 500).unref();
    console.error("reelmesh bridge: stopping (Ctrl-C again: at once)");
    setTimeout(() => {
      console.error(`reelmesh bridge: did not stop within ${STOP_MS / 1000} s`);
      process.exit(1);
    }, STOP_MS).unref();
    try {
      await bridge.stop();
      console.error("reelmesh bridge: stopped");
      process.exit(0);
    } catch (error) {
      console.error("reelmesh bridge: the stop was not clean:", error);
      process.exit(1);
    }
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, stop);
}

try {
  const { values } = parseArgs({ options: { help: { type: "boolean", short: "h" } } });
  if (values.help) console.log(HELP);
  else {
    const loaded = loadConfig(process.env, { generate: ["BRIDGE_TOKEN", "STORAGE_SECRET"] });
    const { config, sources } = loaded;
    const bridge = await startBridge(loaded);
    stopOnSignals(bridge);
    const token =
      sources.BRIDGE_TOKEN === "environment"
        ? "as set by BRIDGE_TOKEN"
        : `${config.BRIDGE_TOKEN} (generated)`;
    console.log(
      [
        `reelmesh ${packageJson.version} bridge serves ${bridge.url}`,
        "",
        `  Token   ${token}`,
        `  Slots   ${config.RENDER_SLOTS}`,
        "",
        ...(isLoopback(config.HOST)
          ? []
          : [
              "Other machines can reach this port, without encryption: put a TLS proxy before it.",
              "",
            ]),
        "Ctrl-C stops it.",
        "",
      ].join("\n"),
    );
  }
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  const isSentence = error instanceof ConfigError || code?.startsWith("ERR_PARSE_ARGS");
  console.error(isSentence ? `reelmesh bridge: ${message}` : error);
  process.exit(1);
}

import type { REPLServer } from "node:repl";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { ServiceBroker } from "moleculer";
import startRepl from "moleculer-repl";
import { brokerOptions } from "../lib/broker-options.ts";
import { type Config, ConfigError, loadConfig } from "../lib/config.ts";
import { loopbackOptions, readMeshPlace } from "../lib/loopback-mesh.ts";
import { systemActor, systemCall } from "../lib/service.ts";
import { startNode } from "../services/node.ts";
import { operatorCommands } from "./repl/operator-commands.ts";

const HELP = `Usage: npm run repl [-- --join]

Moleculer's REPL with the operator commands jobs, job, submit, cancel and nodes; help lists all.
Without --join it hosts the product itself. With --join it enters the product that runs on the same
DATA_DIR (or on the same TRANSPORTER).
`;

/** How long a joining REPL looks for the product. */
const JOIN_MS = 10_000;

/** What is typed here is the operator's own; calls that services make keep their actors. */
const operatorMiddleware = {
  name: "operator",
  call(next: (name: string, params: unknown, options: Record<string, unknown>) => unknown) {
    return (name: string, params: unknown, options: Record<string, unknown> = {}) =>
      next(
        name,
        params,
        options["parentCtx"]
          ? options
          : { ...options, meta: { actor: systemActor, ...(options["meta"] as object) } },
      );
  },
};

async function join(config: Config): Promise<ServiceBroker> {
  const place = readMeshPlace(config.DATA_DIR);
  if (!place && config.TRANSPORTER === undefined)
    throw new ConfigError(
      `no product runs on DATA_DIR ${config.DATA_DIR}. Start one with npm start, or leave out --join`,
    );
  const options = brokerOptions(config, {
    nodeID: `repl-${process.pid}`,
    ...(config.TRANSPORTER === undefined ? loopbackOptions(config.MESH_KEY, place) : {}),
  });
  options.middlewares?.push(operatorMiddleware as never);
  const broker = new ServiceBroker(options);
  await broker.start();
  try {
    await broker.waitForServices(["auth"], JOIN_MS, 100);
  } catch {
    await broker.stop();
    throw new ConfigError(
      `the product${place ? ` (process ${place.pid})` : ""} did not answer within ${JOIN_MS / 1000} s. Is it still running, with the same DATA_DIR?`,
    );
  }
  return broker;
}

/** The first command may ask for the nodes: the one of this process has reported by then, if it hosts one. */
async function nodeReported(broker: ServiceBroker, { SERVICES }: Config): Promise<void> {
  if (!SERVICES.includes("compose") || !SERVICES.includes("scheduler")) return;
  const call = systemCall(broker);
  for (const endAt = Date.now() + JOIN_MS; Date.now() < endAt; ) {
    if ((await call("scheduler.nodes", {})).nodes.length > 0) return;
    await delay(50);
  }
}

async function host(config: Config): Promise<{ broker: ServiceBroker; stop: () => Promise<void> }> {
  const node = await startNode(config, {
    joinable: true,
    broker: {
      middlewares: [...(brokerOptions(config).middlewares ?? []), operatorMiddleware as never],
    },
  });
  await nodeReported(node.broker, config);
  if (node.address) console.log(`reelmesh serves ${node.address.url}; help lists the commands`);
  return node;
}

/** The line that runs now, as it was typed. */
let typed = "";

/** One command after the other, also when they come through a pipe; the end waits for the last. */
function runInTurn(repl: REPLServer, stop: () => Promise<void>): void {
  const evaluate = repl.eval;
  let last: Promise<unknown> = Promise.resolve();
  const inTurn: typeof repl.eval = function (this: REPLServer, line, context, file, done) {
    last = last.then(
      () =>
        new Promise<void>((resolve) => {
          // Moleculer's own `nodes` shows connections; operators mean those who render.
          typed = line.trim();
          const meant = /^nodes\s*$/.test(line) ? "workers\n" : line;
          evaluate.call(this, meant, context, file, (error, result) => {
            done(error, result);
            resolve();
          });
        }),
    );
  };
  Object.assign(repl, { eval: inTurn, ignoreUndefined: true });
  repl.removeAllListeners("exit");
  repl.on("exit", async () => {
    await last;
    await stop();
    process.exit(0);
  });
}

try {
  const { values } = parseArgs({
    options: { join: { type: "boolean" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help) console.log(HELP);
  else {
    // Joining only looks: it must not make up secrets for a directory where nothing runs.
    const { config } = loadConfig(process.env, { generate: !values.join });
    const running = values.join
      ? await join(config).then((broker) => ({ broker, stop: () => broker.stop() }))
      : await host(config);
    const repl = startRepl(running.broker, {
      delimiter: "reelmesh $",
      customCommands: operatorCommands(() => typed),
    } as never) as unknown as REPLServer;
    runInTurn(repl, running.stop);
  }
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  const isSentence = error instanceof ConfigError || code?.startsWith("ERR_PARSE_ARGS");
  console.error(isSentence ? `reelmesh: ${message}` : error);
  process.exit(1);
}

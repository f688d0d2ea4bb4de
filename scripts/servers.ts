import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { type ServerName, serverNames } from "./servers/server.ts";
import { ServerMissing } from "./servers/server-cache.ts";
import { installServers, startServers } from "./servers/start-servers.ts";

const HELP = `Starts the servers that a cluster and the tests need, on free ports of this machine: NATS, Redis,
a MongoDB-compatible server (FerretDB 2 before PostgreSQL with DocumentDB) and an S3 server. Prints
the settings that lead to them; Ctrl-C stops them.

  npm run servers
  npm run servers -- --only nats,redis   some of ${serverNames.join(", ")}
  npm run servers -- --install           only installs what is missing, a few minutes the first time
  --dir DIR    keeps data and logs there for the next time (default: a folder that is removed)
  --help

A server that is named by TRANSPORTER, REDIS_URL, MONGO_URL or S3_ENDPOINT is used, not started.
Installed servers are kept in reelmesh under XDG_CACHE_HOME (default ~/.cache).`;

// npm runs scripts in the project's folder; the user's paths are meant from where they stand.
const from = process.env["INIT_CWD"] ?? process.cwd();

class UsageError extends Error {}

function named(text: string | undefined): readonly ServerName[] {
  if (text === undefined) return serverNames;
  const words = text.split(",").map((word) => word.trim());
  const wrong = words.find((word) => !(serverNames as readonly string[]).includes(word));
  if (wrong !== undefined)
    throw new UsageError(`--only: ${wrong} is none of ${serverNames.join(", ")}`);
  return [...new Set(words)] as ServerName[];
}

/** For a shell to read. */
const quoted = (text: string) =>
  /^[\w.:/@%+=-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: "string" },
      install: { type: "boolean" },
      dir: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return console.log(HELP);
  const only = named(values.only);
  const progress = (line: string) => console.error(`servers: ${line}`);
  const dir = values.dir === undefined ? undefined : resolve(from, values.dir);
  // Until they run, an installation ends with this process, and what has been started so far is left to the watchdog. The listeners stay the same: Node loses a
  // signal that arrives while one is exchanged for another.
  let interrupted: () => void = () => process.exit(130);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => interrupted());
  if (values.install) return installServers({ only, progress });
  const servers = await startServers({ only, progress, ...(dir === undefined ? {} : { dir }) });
  for (const [name, value] of Object.entries(servers.env))
    console.log(`export ${name}=${quoted(value)}`);
  const asked = new Promise<void>((resolve) => {
    interrupted = resolve;
  });
  console.error(`servers: running, logs in ${servers.dir}; Ctrl-C stops them`);
  await asked;
  await servers.stop();
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    const { code, message } = error as NodeJS.ErrnoException;
    const isSentence =
      error instanceof ServerMissing ||
      error instanceof UsageError ||
      code?.startsWith("ERR_PARSE_ARGS");
    console.error(isSentence ? `servers: ${message}` : error);
    process.exit(1);
  },
);

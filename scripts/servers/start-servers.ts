import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "./config.ts";
import { mongo } from "./mongo-wire.ts";
import { nats } from "./nats.ts";
import { redis } from "./redis.ts";
import { RunRecord, sweepStaleRuns } from "./run-record.ts";
import { s3 } from "./s3.ts";
import {
  freePort,
  Server,
  type ServerEnv,
  type ServerKind,
  type ServerName,
  serverNames,
} from "./server.ts";
import { type Progress, ServerMissing, tryLock } from "./server-cache.ts";

const kinds: Record<ServerName, ServerKind> = { nats, redis, mongo, s3 };

export interface StartOptions {
  /** Default: all. */
  only?: readonly ServerName[];
  /** Where they keep data and logs; stays. Default: a folder of this run's own, removed with it. */
  dir?: string;
  /** Starts even what the environment names: for a test that pulls plugs. */
  own?: boolean;
  progress?: Progress;
}

/** Servers that answer. */
export class Servers {
  /** Settings of the product that lead to them. */
  readonly env: ServerEnv = {};
  /** Data and logs, a folder for each server. */
  readonly dir: string;
  readonly #servers: Map<ServerName, Server>;
  readonly #finish: () => Promise<void>;
  #stopped: Promise<void> | undefined;

  constructor(dir: string, servers: readonly Server[], finish: () => Promise<void>) {
    this.dir = dir;
    this.#servers = new Map(servers.map((server) => [server.name, server]));
    this.#finish = finish;
    for (const server of servers) Object.assign(this.env, server.env);
  }

  get names(): ServerName[] {
    return [...this.#servers.keys()];
  }

  /** One that was asked for with `only`. */
  get(name: ServerName): Server {
    const server = this.#servers.get(name);
    if (!server) throw new Error(`${name} is not among the servers that were started`);
    return server;
  }

  /** Ends them all and removes what they leave. May be called again. */
  stop(): Promise<void> {
    this.#stopped ??= this.#finish();
    return this.#stopped;
  }
}

/**
 * Finds, installs and starts servers, and resolves when all of them answer. Those that the environment names are
 * used as they are. What is started ends with this process, whatever way that ends.
 * @throws ServerMissing when one cannot be had; nothing runs then.
 */
export async function startServers(options: StartOptions = {}): Promise<Servers> {
  const { only = serverNames, own = false, progress = () => undefined } = options;
  await sweepStaleRuns();
  await installServers(options);
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), "reelmesh-servers-")));
  await mkdir(dir, { recursive: true });
  const unlock = tryLock(join(dir, "servers.lock"));
  if (!unlock) throw new ServerMissing(`${dir} is in use by servers that run already`);
  const record = await RunRecord.open(options.dir === undefined ? dir : undefined);
  const results = await Promise.allSettled(
    only.map((name) =>
      isGiven(name) && !own ? useGiven(kinds[name]) : startOne(kinds[name], dir, record, progress),
    ),
  );
  const servers = results.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = results.find((one) => one.status === "rejected");
  const finish = async () => {
    await Promise.allSettled(servers.map((server) => (server.given ? undefined : server.stop())));
    unlock();
    await record.close();
  };
  if (!failed) return new Servers(dir, servers, finish);
  await finish();
  throw failed.reason;
}

const isGiven = (name: ServerName) => Boolean(process.env[kinds[name].setting]);

async function useGiven(kind: ServerKind): Promise<Server> {
  const names = [kind.setting, ...kind.companions];
  const env = Object.fromEntries(
    names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])),
  );
  const server = new Server(kind, env, []);
  await server.answers(limits.givenMs);
  return server;
}

async function startOne(
  kind: ServerKind,
  parent: string,
  record: RunRecord,
  progress: Progress,
): Promise<Server> {
  const dir = join(parent, kind.name);
  await mkdir(dir, { recursive: true });
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    const { processes, env } = await kind.prepare({ dir, record, port, progress });
    const server = new Server(kind, env, processes);
    try {
      await server.start();
      return server;
    } catch (error) {
      await server.kill();
      if (attempt === limits.portAttempts || !/address already in use/i.test(String(error)))
        throw error;
    }
  }
}

/** Installs what is missing. A server that the environment names needs nothing, unless `own` is asked for. */
export async function installServers({
  only = serverNames,
  own = false,
  progress = () => undefined,
}: StartOptions): Promise<void> {
  const results = await Promise.allSettled(
    only.filter((name) => own || !isGiven(name)).map((name) => installOne(kinds[name], progress)),
  );
  const reasons = results.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  if (reasons.length > 0) throw new ServerMissing(reasons.map(({ message }) => message).join("\n"));
}

async function installOne({ install, name, setting }: ServerKind, progress: Progress) {
  try {
    await install(progress);
  } catch (error) {
    if (error instanceof ServerMissing) throw error;
    throw new ServerMissing(
      `${name} cannot be installed; set ${setting} to a running one instead: ${(error as Error).message}`,
    );
  }
}

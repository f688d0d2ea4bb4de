import { Redis } from "ioredis";
import type { Config } from "./config.ts";
import { type DependencyReporter, dependenciesOf } from "./dependency-state.ts";

/** Limits of the connection, in milliseconds. */
const limits = {
  /** One command; what it was to speed up is then done without it. Less than a health check waits. */
  commandMs: 500,
  /** Silence on commands that wait: the connection is given up, so that nothing more waits for it. */
  silenceMs: 800,
  connectMs: 3_000,
  /** First wait before a new try; doubles up to `reconnectMsMax`. */
  reconnectMs: 50,
  reconnectMsMax: 2_000,
} as const;

/** One user's hold on the connection that a process has to one Redis. */
export interface RedisHandle {
  /** Commands on it fail at once while Redis is away, and within `commandMs` when it hangs. Keys get NAMESPACE in front. */
  readonly client: Redis;
  /** Whether a command is worth sending. */
  readonly ready: boolean;
  /** Resolves when it is known whether Redis is there: with the first connection or the first failure. */
  readonly settled: Promise<void>;
  /** Calls back with each new connection, and at once where there is one: what was told meanwhile did not arrive. */
  onReady(listener: () => void): void;
  /** Calls back with each loss of the connection, before there can be another. */
  onLost(listener: () => void): void;
  /** Safe to repeat; the last user's release closes the connection. */
  release(): Promise<void>;
}

interface Shared {
  client: Redis;
  users: Set<DependencyReporter>;
  settled: Promise<void>;
  failure: string;
}

/** Connections of this process by namespace and address. */
const shared = new Map<string, Shared>();

function connect(url: string, namespace: string): Redis {
  return new Redis(url, {
    keyPrefix: `${namespace}:`,
    connectionName: "reelmesh",
    connectTimeout: limits.connectMs,
    commandTimeout: limits.commandMs,
    socketTimeout: limits.silenceMs,
    // Whoever asks goes on without Redis: nothing is kept for later, and nothing is sent twice.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt) => {
      const full = Math.min(limits.reconnectMsMax, limits.reconnectMs * 2 ** Math.min(10, attempt));
      // Scattered: all nodes lose a restarted server at the same moment.
      return Math.round(full * (0.5 + Math.random() / 2));
    },
    // A replica that was the master until now takes no writes: look for the new one under the same name.
    reconnectOnError: (error) => (error.message.startsWith("READONLY") ? 2 : false),
  });
}

function open(url: string, namespace: string): Shared {
  const client = connect(url, namespace);
  const entry: Shared = {
    client,
    users: new Set(),
    failure: "not connected yet",
    settled: new Promise((resolve) => {
      for (const event of ["ready", "error", "close"]) client.once(event, () => resolve());
    }),
  };
  // The message only: the error of a refused sign-in carries the command with the password.
  client.on("error", (error: Error) => {
    entry.failure = error.message;
    if (client.status !== "ready") for (const user of entry.users) user.down(entry.failure);
  });
  client.on("ready", () => {
    entry.failure = "the connection was closed";
    for (const user of entry.users) user.up();
  });
  client.on("close", () => {
    for (const user of entry.users) user.down(entry.failure);
  });
  return entry;
}

async function close({ client }: Shared): Promise<void> {
  const { status } = client;
  const ended = new Promise<void>((resolve) => client.once("end", () => resolve()));
  // QUIT lets answers under way arrive; a server that does not answer is left.
  if (client.status === "ready") await client.quit().catch(() => client.disconnect());
  else client.disconnect();
  // Between two tries there is no socket whose end could be waited for, only a timer, which is gone now.
  if (!["end", "close", "reconnecting"].includes(status)) await ended;
}

/**
 * The process's connection to the Redis at REDIS_URL, opened by its first user. It never fails: while Redis is away
 * the node is degraded, which its `DependencyStates` tell.
 * @param degrades One sentence: what this user does less well without Redis.
 * @returns undefined where REDIS_URL is not set.
 */
export function acquireRedis(config: Config, degrades: string): RedisHandle | undefined {
  const url = config.REDIS_URL;
  if (url === undefined) return undefined;
  const place = `${config.NAMESPACE} ${url}`;
  const entry = shared.get(place) ?? open(url, config.NAMESPACE);
  shared.set(place, entry);
  const { client, users } = entry;
  const reporter = dependenciesOf(config).declare("redis", { degrades });
  users.add(reporter);
  if (client.status === "ready") reporter.up();
  const listeners: ["ready" | "close", () => void][] = [];
  return {
    client,
    get ready() {
      return client.status === "ready";
    },
    settled: entry.settled,
    onReady(listener) {
      listeners.push(["ready", listener]);
      client.on("ready", listener);
      if (client.status === "ready") listener();
    },
    onLost(listener) {
      listeners.push(["close", listener]);
      client.on("close", listener);
    },
    async release() {
      if (!users.delete(reporter)) return;
      reporter.withdraw();
      for (const [event, listener] of listeners) client.off(event, listener);
      if (users.size > 0) return;
      if (shared.get(place) === entry) shared.delete(place);
      await close(entry);
    },
  };
}

import mongoose, { type Connection, type ConnectOptions } from "mongoose";
import type { DependencyReporter } from "../dependency-state.ts";
import { mongoConnectFailure } from "./mongo-errors.ts";

/** Limits of talking to MongoDB. */
const mongoLimits = {
  /** A call waits this long for a server that can take it, then it answers UNAVAILABLE; the start waits as long. */
  serverSelectionMs: 5_000,
  connectMs: 3_000,
  /** How often each server is asked whether it is well: one that vanished is noticed after this and `connectMs`. */
  heartbeatMs: 2_000,
  /** An answer that takes longer never comes. */
  socketMs: 60_000,
  /** A write that the majority has not confirmed by then answers UNAVAILABLE; it may still come to pass. */
  majorityMs: 10_000,
  connectionsMax: 50,
} as const;

const DATABASE = "reelmesh";

const options: ConnectOptions = {
  appName: "reelmesh",
  serverSelectionTimeoutMS: mongoLimits.serverSelectionMs,
  connectTimeoutMS: mongoLimits.connectMs,
  heartbeatFrequencyMS: mongoLimits.heartbeatMs,
  socketTimeoutMS: mongoLimits.socketMs,
  waitQueueTimeoutMS: mongoLimits.serverSelectionMs,
  maxPoolSize: mongoLimits.connectionsMax,
  // An answered write is on the disks of the majority: it outlives the loss of any one server.
  writeConcern: { w: "majority", journal: true, wtimeoutMS: mongoLimits.majorityMs },
  // Nobody decides on what a failover may take back.
  readConcern: { level: "majority" },
  readPreference: "primary",
  // A call while the server is away fails in bounded time instead of waiting in this process.
  bufferCommands: false,
  autoIndex: false,
  autoCreate: false,
};

/** Database of an address: the one in its path, else `reelmesh`. */
const databaseOf = (url: string): string =>
  decodeURIComponent(/^[a-z+]+:\/\/[^/?#]*\/([^?#]+)/.exec(url)?.[1] ?? DATABASE);

/** Users are looked up where the address says, by default in `admin`: our default database must not change that. */
const authentication = (url: string): ConnectOptions =>
  /^[a-z+]+:\/\/[^/?#]*@[^/?#]*\/?(\?|$)/.test(url) && !/[?&]authSource=/.test(url)
    ? { authSource: "admin" }
    : {};

async function connect(url: string): Promise<Connection> {
  let connection: Connection | undefined;
  try {
    connection = mongoose.createConnection(url, {
      ...options,
      ...authentication(url),
      dbName: databaseOf(url),
    });
    // Each user of the connection listens for its coming and going.
    connection.setMaxListeners(0);
    await connection.asPromise();
    return connection;
  } catch (error) {
    await connection?.destroy().catch(() => undefined);
    throw mongoConnectFailure(url, error);
  }
}

interface Shared {
  users: number;
  connection: Promise<Connection>;
}
const shared = new Map<string, Shared>();

export interface MongoHandle {
  connection: Connection;
  /** Gives the connection back; the last one closes it. Safe to repeat. */
  release(): Promise<void>;
}

/**
 * The connection of this process to one MongoDB address; whoever asks for the same address shares it. It comes back
 * by itself after the server was away.
 * @param reporter is told when the server goes and comes, until `release`.
 * @throws ConfigError in one sentence that names MONGO_URL when no server answers or it refuses the user.
 */
export async function acquireMongo(
  url: string,
  reporter?: DependencyReporter,
): Promise<MongoHandle> {
  const entry: Shared = shared.get(url) ?? { users: 0, connection: connect(url) };
  shared.set(url, entry);
  entry.users += 1;
  let connection: Connection;
  try {
    connection = await entry.connection;
  } catch (error) {
    if (shared.get(url) === entry) shared.delete(url);
    reporter?.withdraw();
    throw error;
  }
  const stopReporting = reporter ? report(connection, reporter) : undefined;
  let released: Promise<void> | undefined;
  const release = async () => {
    stopReporting?.();
    entry.users -= 1;
    if (entry.users > 0) return;
    if (shared.get(url) === entry) shared.delete(url);
    await connection.close();
  };
  return {
    connection,
    release: () => {
      released ??= release();
      return released;
    },
  };
}

function report(connection: Connection, reporter: DependencyReporter): () => void {
  const up = () => reporter.up();
  const down = () => reporter.down("no server of MONGO_URL answers");
  connection.on("connected", up).on("reconnected", up).on("disconnected", down);
  up();
  return () => {
    connection.off("connected", up).off("reconnected", up).off("disconnected", down);
    reporter.withdraw();
  };
}

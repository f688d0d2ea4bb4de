import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { mongo as driver } from "mongoose";
import { limits } from "./config.ts";
import { debianPostgres, postgresArgs, requireDebian } from "./debian-postgres.ts";
import { canGoInstall, goInstall } from "./install-steps.ts";
import { ManagedProcess } from "./managed-process.ts";
import type { ServerKind } from "./server.ts";
import { type Progress, ServerMissing } from "./server-cache.ts";

const fromGo = {
  program: "ferretdb",
  module: "github.com/FerretDB/FerretDB/v2/cmd/ferretdb",
  version: "v2.7.0",
};

/** Connections of FerretDB to PostgreSQL; fewer than PostgreSQL takes, which needs some for itself. */
const POOL = 100;

/** What the operating system takes as the path of a socket. */
const SOCKET_PATH_BYTES = 107;

function requireFerret(): void {
  if (!process.env["FERRETDB_PATH"] && !canGoInstall(fromGo))
    throw new ServerMissing(
      "The MongoDB-compatible server needs Go to compile FerretDB 2: install Go, or set MONGO_URL to a running MongoDB.",
    );
}

async function ferretProgram(progress: Progress): Promise<string> {
  requireFerret();
  return process.env["FERRETDB_PATH"] || (await goInstall(fromGo, progress))!;
}

/** FerretDB 2 before PostgreSQL with DocumentDB: the nearest to MongoDB that can be had where no mongod may be installed. */
export const mongo: ServerKind = {
  name: "mongo",
  setting: "MONGO_URL",
  companions: [],
  async install(progress) {
    // What is impossible here is found before anything takes minutes.
    requireFerret();
    requireDebian();
    const both = await Promise.allSettled([debianPostgres(progress), ferretProgram(progress)]);
    for (const one of both) if (one.status === "rejected") throw one.reason;
  },
  async prepare({ dir, record, port, progress }) {
    const [postgres, ferret] = await Promise.all([
      debianPostgres(progress),
      ferretProgram(progress),
    ]);
    const cluster = join(dir, "cluster");
    if (Buffer.byteLength(join(cluster, "run", ".s.PGSQL.5432")) > SOCKET_PATH_BYTES)
      throw new ServerMissing(
        `--dir: ${dir} is too long for the path of a socket; choose a shorter one`,
      );
    const state = join(dir, "ferretdb");
    await mkdir(state, { recursive: true });
    if (!existsSync(cluster)) await postgres.copyCluster(cluster);
    const socket = encodeURIComponent(join(cluster, "run"));
    const database = new ManagedProcess(
      {
        name: "postgres",
        ...postgres.command(cluster, "postgres", postgresArgs),
        logFile: join(dir, "postgres.log"),
        // Its SIGTERM would wait until every client has gone.
        stopSignal: "SIGINT",
        // Left by a kill. Nothing of it runs now, so what PostgreSQL makes of a reused process id does not matter.
        prepare: () => rm(join(cluster, "data", "postmaster.pid"), { force: true }),
      },
      record,
    );
    const front = new ManagedProcess(
      {
        name: "ferretdb",
        command: ferret,
        args: [
          `--postgresql-url=postgres://postgres@/postgres?host=${socket}&pool_max_conns=${POOL}`,
          `--listen-addr=127.0.0.1:${port}`,
          `--state-dir=${state}`,
          ...["--debug-addr=-", "--telemetry=disable", "--log-level=WARN", "--no-auth"],
        ],
        env: { DO_NOT_TRACK: "true" },
        logFile: join(dir, "ferretdb.log"),
      },
      record,
    );
    return {
      processes: [database, front],
      env: { MONGO_URL: `mongodb://127.0.0.1:${port}/` },
    };
  },
  async ping(env) {
    const client = new driver.MongoClient(env["MONGO_URL"]!, {
      serverSelectionTimeoutMS: limits.pingMs,
      connectTimeoutMS: limits.pingMs,
    });
    try {
      await client.db().command({ ping: 1 });
    } finally {
      await client.close();
    }
  },
};

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type Config, ConfigError, type Role } from "./config.ts";
import { hostingOf } from "./hosting.ts";

/** Roles that keep something in DATA_DIR that has one writer; a compose node has its journal there in any case. */
function writers(config: Config): readonly Role[] {
  const { local, roles } = hostingOf(config);
  return roles.includes("compose") ? [...local, "compose"] : local;
}

/**
 * Keeps a second process out of a data directory. An open transaction on a file of its own holds the lock,
 * so that the operating system gives it back whatever way the process ends, `kill -9` included.
 * @returns Gives the lock back.
 * @throws ConfigError with the holder's process id.
 */
export function lockDataDir(config: Config): () => void {
  const { DATA_DIR } = config;
  const held: (() => void)[] = [];
  const release = () => {
    for (const giveBack of held.splice(0).reverse()) giveBack();
  };
  for (const role of writers(config)) {
    try {
      held.push(lockAs(role, DATA_DIR));
    } catch (error) {
      release();
      throw error;
    }
  }
  return release;
}

/** The same for any other name. @throws ConfigError with the holder's process id. */
export function lockAs(role: string, dataDir: string): () => void {
  const folder = join(dataDir, "locks");
  const holder = join(folder, `${role}.pid`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const database = new DatabaseSync(join(folder, `${role}.lock`));
  try {
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if (!/locked|busy/i.test((error as Error).message)) throw error;
    throw new ConfigError(
      `DATA_DIR: ${dataDir} is in use by process ${pidIn(holder)}. Stop that process, or set DATA_DIR to another directory`,
    );
  }
  writeFileSync(holder, `${process.pid}\n`, { mode: 0o600 });
  return () => {
    rmSync(holder, { force: true });
    database.close();
  };
}

function pidIn(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return "(unknown)";
  }
}

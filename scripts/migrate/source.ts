import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type Config, ConfigError, loadConfig } from "../../lib/config.ts";
import { lockDataDir } from "../../lib/data-lock.ts";
import { openRecords, recordsFile } from "../../lib/store/open-records.ts";
import type { Collection, RecordStore } from "../../lib/store/record-store.ts";
import { recordTable, searchTable } from "../../lib/store/sqlite-query.ts";
import { AccountStore } from "../../services/auth/account-store.ts";
import { SqliteTokenStore } from "../../services/auth/sqlite-token-store.ts";
import { catalogue } from "../../services/catalogue.ts";
import { SqliteJobStore } from "../../services/scheduler/sqlite-job-store.ts";
import { DiskStore } from "../../services/storage/disk-store.ts";
import { cannotOpen, MoveError } from "./move-error.ts";

/** An embedded installation's stores, open and locked against the product. */
export interface Source {
  dir: string;
  records: RecordStore[];
  tokens: SqliteTokenStore;
  jobs: SqliteJobStore;
  objects: DiskStore;
  close(): Promise<void>;
}

/** What the product's services declare, each collection once. */
const collections = (): Collection[] => [
  ...new Map(
    Object.values(catalogue)
      .flat()
      .flatMap((service) => service.collections ?? [])
      .map((collection) => [collection.name, collection]),
  ).values(),
];

const databases = ["records.sqlite", "jobs.sqlite", "objects.sqlite"];
/** Tables of the records' file that hold no collection. */
const besideCollections = ["collections", "auth_token"];

/** The directory as the product itself would use it: no server is named. */
function embedded(dir: string): Config {
  const { config } = loadConfig({ DATA_DIR: dir }, { generate: false });
  return config;
}

/**
 * Opens an installation's directory, as a start of the product would: older records are brought to this version's form.
 * @param ignored names of tables and files that may stay behind.
 * @throws MoveError when it is none, is in use, or holds something that no service of this version declares.
 */
export async function openSource(dir: string, ignored: readonly string[]): Promise<Source> {
  if (
    !existsSync(dir) ||
    !statSync(dir).isDirectory() ||
    !databases.some((name) => existsSync(join(dir, name)))
  )
    throw new MoveError(
      `--from: ${dir} is no installation's directory: it holds none of ${databases.join(", ")}. Name the DATA_DIR of the embedded product`,
    );
  const config = embedded(dir);
  const ends: (() => unknown)[] = [lock(config)];
  const close = async () => {
    for (const end of ends.splice(0).reverse()) await end();
  };
  const kept = <T extends { close(): Promise<void> }>(store: T): T => {
    ends.push(() => store.close());
    return store;
  };
  try {
    // Version 0.1 kept the accounts elsewhere; opening them takes them over.
    await (await AccountStore.open(config)).close();
    const declared = collections();
    refuseUnknown(config, declared, ignored);
    const records: RecordStore[] = [];
    for (const collection of declared) records.push(kept(await openRecords(config, collection)));
    return {
      dir,
      records,
      tokens: kept(await SqliteTokenStore.open(recordsFile(config))),
      jobs: kept(await SqliteJobStore.open(join(dir, "jobs.sqlite"), { exclusive: true })),
      objects: kept(await DiskStore.open(dir)),
      close,
    };
  } catch (error) {
    await close();
    throw cannotOpen(`--from: ${dir}`, error);
  }
}

function lock(config: Config): () => void {
  try {
    return lockDataDir(config);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const process = /process (\S+?)\./.exec(error.message)?.[1] ?? "(unknown)";
    throw new MoveError(
      `--from: ${config.DATA_DIR} is in use by process ${process}. Stop the product there; while it runs, what it writes would stay behind`,
    );
  }
}

/** What would be left behind without a word. */
function refuseUnknown(
  config: Config,
  declared: readonly Collection[],
  ignored: readonly string[],
): void {
  const known = new Set([
    ...besideCollections,
    ...declared.flatMap((collection) => [recordTable(collection), searchTable(collection)]),
  ]);
  const unknown = [
    ...tablesOf(recordsFile(config))
      .filter((name) => !known.has(name))
      .map((name) => name.replace(/^r_/, "")),
    ...readdirSync(config.DATA_DIR).filter(
      (name) => name.endsWith(".sqlite") && !databases.includes(name),
    ),
  ].filter((name) => !ignored.includes(name));
  if (unknown.length > 0)
    throw new MoveError(
      `${config.DATA_DIR} holds ${unknown.join(", ")}, which no service of this version declares. Use the version that wrote it, or leave it behind with ${unknown.map((name) => `--ignore ${name}`).join(" ")}`,
    );
}

function tablesOf(file: string): string[] {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const rows = db
      .prepare(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual') AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'f\\_%' ESCAPE '\\' ORDER BY name",
      )
      .all() as { name: string }[];
    return rows.map(({ name }) => name);
  } finally {
    db.close();
  }
}

import { type Config, loadConfig } from "../../lib/config.ts";
import { acquireMongo } from "../../lib/mongo/connection.ts";
import { openRecords } from "../../lib/store/open-records.ts";
import type { Collection, RecordStore } from "../../lib/store/record-store.ts";
import { MongoTokenStore } from "../../services/auth/mongo-token-store.ts";
import { MongoJobStore } from "../../services/scheduler/mongo-job-store.ts";
import type { ObjectStore } from "../../services/storage/object-store.ts";
import { openStore } from "../../services/storage/open-store.ts";
import { cannotOpen, MoveError } from "./move-error.ts";

/** A cluster's stores. */
export interface Target {
  /** Where it is, without user and password: the same for the same target. */
  name: string;
  /** The S3 server; absent: objects stay where they are. */
  objectsName?: string;
  records: RecordStore[];
  tokens: MongoTokenStore;
  jobs: MongoJobStore;
  objects?: ObjectStore;
  close(): Promise<void>;
}

/** The settings of the target: those of the environment, less what concerns this node alone. */
function targetConfig(dir: string, mongoUrl: string): Config {
  const { TRANSPORTER: _, BRIDGE_URL: __, ...env } = process.env;
  return loadConfig({ ...env, DATA_DIR: dir, MONGO_URL: mongoUrl }, { generate: false }).config;
}

const shown = (url: string): string =>
  url.replace(/^([a-z+\d]+:\/\/)(?:[^/?#]*@)?([^?#]*).*$/s, "$1$2").replace(/\/$/, "");

/**
 * Opens the stores of the cluster at `mongoUrl`; objects are in the S3 server of the environment.
 * @throws MoveError, ConfigError in one sentence when something is missing or does not answer.
 */
export async function openTarget(
  mongoUrl: string,
  {
    dir,
    collections,
    skipObjects,
  }: { dir: string; collections: readonly Collection[]; skipObjects: boolean },
): Promise<Target> {
  const config = targetConfig(dir, mongoUrl);
  if (!config.S3_ENDPOINT && !skipObjects)
    throw new MoveError(
      "S3_ENDPOINT: missing. The cluster keeps objects on an S3 server: set S3_ENDPOINT, OSS_ACCESSKEY_ID, OSS_ACCESSKEY_SECRET and OSS_REGION as on its nodes, or leave the objects behind with --skip-objects",
    );
  const ends: (() => unknown)[] = [];
  const close = async () => {
    for (const end of ends.splice(0).reverse()) await end();
  };
  const kept = <T extends { close(): Promise<void> }>(store: T): T => {
    ends.push(() => store.close());
    return store;
  };
  try {
    ends.push((await acquireMongo(mongoUrl)).release);
    const records: RecordStore[] = [];
    for (const collection of collections) records.push(kept(await openRecords(config, collection)));
    const objects = skipObjects ? undefined : kept(await openStore(config));
    return {
      name: shown(mongoUrl),
      records,
      tokens: kept(await MongoTokenStore.open(mongoUrl)),
      jobs: kept(await MongoJobStore.open(mongoUrl)),
      ...(objects ? { objects, objectsName: shown(config.S3_ENDPOINT!) } : {}),
      close,
    };
  } catch (error) {
    await close();
    throw cannotOpen(`--to: ${shown(mongoUrl)}`, error);
  }
}

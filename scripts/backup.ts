import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { ConfigError, loadConfig } from "../lib/config.ts";
import {
  BackupError,
  type BackupManifest,
  backUp,
  backUpFile,
  checkBackup,
} from "../lib/store/backup.ts";
import { recordsFile } from "../lib/store/open-records.ts";

const HELP = `Usage: npm run backup [-- --to DIR | --to FILE.sqlite | --check DIR] [--data-dir-only]

Copies records, jobs, the index of objects and the generated secrets while the product runs;
nothing is stopped, nobody waits. Each database is one moment in time and is checked.

  --to DIR          a new folder; default DATA_DIR/backups/<time>
  --to FILE.sqlite  only the records, as one file
  --check DIR       tells whether a backup is still intact
  --data-dir-only   with MONGO_URL: what is in DATA_DIR, after you have copied the database yourself
  --help

The folder holds secrets: keep it as safe as DATA_DIR. The objects themselves (videos, pictures)
are plain files in DATA_DIR/objects: copy them with any tool, after this.

To restore: stop the product, move DATA_DIR/*.sqlite* away, copy the folder's files except
manifest.json into DATA_DIR, start.

With MONGO_URL records, accounts and jobs are in MongoDB. Copy them with MongoDB's own tool
(mongodump, back with mongorestore --drop while the product is stopped); it takes no single moment
in time unless you give it --oplog, for which the address must name no database.
`;

/** @throws BackupError unless the operator says that the database is taken care of: a backup without it is none. */
function refuseHalfBackup(mongoUrl: string | undefined, dataDirOnly: boolean, file: boolean): void {
  if (mongoUrl === undefined || (dataDirOnly && !file)) return;
  const namesDatabase = /^[a-z+]+:\/\/[^/?]+\/[^?]/.test(mongoUrl);
  const dump = `mongodump --uri="$MONGO_URL"${namesDatabase ? "" : " --db=reelmesh"} --gzip --archive=reelmesh.archive.gz`;
  throw new BackupError(
    `MONGO_URL is set: records, accounts and jobs are in MongoDB, which this command does not copy. Run ${dump} and then npm run backup -- --data-dir-only for the secrets and the index of objects`,
  );
}

// npm runs scripts in the project's folder; the user's paths are meant from where they stand.
const from = process.env["INIT_CWD"] ?? process.cwd();

const line = ({ name, bytes, sha256 }: BackupManifest["files"][0]) =>
  `${name.padEnd(18)} ${String(bytes).padStart(12)} bytes  sha256 ${sha256}`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      to: { type: "string" },
      check: { type: "string" },
      "data-dir-only": { type: "boolean", default: false },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return console.log(HELP);
  if (values.check !== undefined) {
    const folder = resolve(from, values.check);
    const { files, createdAt } = await checkBackup(folder);
    return console.log([...files.map(line), `intact, made ${createdAt}: ${folder}`].join("\n"));
  }
  const { config } = loadConfig(process.env, { generate: false });
  const isFile = values.to?.endsWith(".sqlite") === true;
  refuseHalfBackup(config.MONGO_URL, values["data-dir-only"], isFile);
  if (values.to !== undefined && isFile) {
    const file = resolve(from, values.to);
    return console.log(line(await backUpFile(recordsFile(config), file)));
  }
  const now = new Date();
  const folder = values.to
    ? resolve(from, values.to)
    : join(config.DATA_DIR, "backups", now.toISOString().replaceAll(":", "-"));
  const { files } = await backUp(config.DATA_DIR, folder, now);
  console.log([...files.map(line), `backed up to ${folder}`].join("\n"));
}

main().catch((error: unknown) => {
  const { code, message } = error as NodeJS.ErrnoException;
  const isSentence =
    error instanceof BackupError ||
    error instanceof ConfigError ||
    code?.startsWith("ERR_PARSE_ARGS");
  console.error(isSentence ? `backup: ${message}` : error);
  process.exitCode = 1;
});

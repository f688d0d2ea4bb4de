import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { ConfigError } from "../lib/config.ts";
import { asAppError } from "../lib/errors.ts";
import { move } from "./migrate/move.ts";
import { MoveError } from "./migrate/move-error.ts";
import { jobTotal } from "./migrate/move-jobs.ts";
import { ProgressDisplay } from "./migrate/progress-display.ts";
import { secretsIn, writeSecrets } from "./migrate/secrets.ts";
import { openSource, type Source } from "./migrate/source.ts";
import { isEqual, summaryOf } from "./migrate/summary.plan.ts";
import { openTarget } from "./migrate/target.ts";

const HELP = `Usage: npm run migrate -- --from DIR --to MONGO_URL [options]

Carries an embedded installation into a cluster: records, accounts, login tokens, jobs with their logs, callbacks and
order, paused queues, and objects. Then compares everything, and ends with 0 only if all is equal.

  --from DIR         DATA_DIR of the embedded product, which must be stopped
  --to MONGO_URL     the cluster's database; without it MONGO_URL of the environment, which no list of processes shows
  --dry-run          only tells what there is to carry
  --verify           only compares, every byte
  --skip-objects     leaves videos, pictures and other objects where they are
  --replace          records that the target has in another form are replaced; else they are named and stay
  --ignore NAME      leaves a table or file behind that no service of this version declares; may be repeated
  --secrets FILE     writes the installation's generated secrets, as NAME=value, for the cluster's nodes
  --help

Objects go to the S3 server of S3_ENDPOINT, OSS_ACCESSKEY_ID, OSS_ACCESSKEY_SECRET, OSS_REGION, S3_ADDRESSING.
The cluster's nodes must be stopped. The move may be broken off at any time: the same command goes on with it. How far
it is lies in DIR/migration.json. DIR stays as it is, but older records in it are brought to this version's form.
`;

// npm runs scripts in the project's folder; the user's paths are meant from where they stand.
const here = process.env["INIT_CWD"] ?? process.cwd();
const display = new ProgressDisplay(process.stdout);
const stop = new AbortController();

function readArguments() {
  const { values } = parseArgs({
    options: {
      from: { type: "string" },
      to: { type: "string" },
      "dry-run": { type: "boolean", default: false },
      verify: { type: "boolean", default: false },
      "skip-objects": { type: "boolean", default: false },
      replace: { type: "boolean", default: false },
      ignore: { type: "string", multiple: true, default: [] },
      secrets: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  return values;
}
type Arguments = ReturnType<typeof readArguments>;

async function main(): Promise<void> {
  const given = readArguments();
  if (given.help) return console.log(HELP);
  if (given.from === undefined)
    throw new MoveError("--from: missing. Name the DATA_DIR of the embedded product");
  const dir = resolve(here, given.from);
  const mongoUrl = given.to ?? process.env["MONGO_URL"];
  if (!mongoUrl && !given["dry-run"])
    throw new MoveError("--to: missing. Name the cluster's database, or set MONGO_URL");
  // Known before hours of work, not after.
  const secretsFile = given.secrets === undefined ? undefined : resolve(here, given.secrets);
  if (secretsFile !== undefined && existsSync(secretsFile))
    throw new MoveError(`--secrets: ${secretsFile} exists already; name a file that does not`);
  const source = await openSource(dir, given.ignore);
  try {
    if (given["dry-run"]) await tellContents(source);
    else await moveTo(mongoUrl!, source, given);
    if (!given.verify) await tellSecrets(dir, secretsFile);
  } finally {
    await source.close();
  }
}

async function moveTo(mongoUrl: string, source: Source, given: Arguments): Promise<void> {
  const target = await openTarget(mongoUrl, {
    dir: source.dir,
    collections: source.records.map(({ collection }) => collection),
    skipObjects: given["skip-objects"],
  });
  try {
    display.say(
      `${given.verify ? "Comparing" : "From"} ${source.dir} ${given.verify ? "with" : "to"} ${[target.name, target.objectsName].filter(Boolean).join(" and ")}`,
    );
    const rows = await move(source, target, {
      verify: given.verify,
      replaces: given.replace,
      show: (...what) => display.show(...what),
      say: (text) => display.say(text),
      stop: stop.signal,
    });
    const equal = rows.every(isEqual);
    display.say(`\n${summaryOf(rows)}\n`);
    if (given["skip-objects"]) display.say("Objects were left behind (--skip-objects).");
    display.say(equal ? "Everything is equal." : "Not everything is equal: see above.");
    if (!equal) process.exitCode = 1;
  } finally {
    await target.close();
  }
}

async function tellContents(source: Source): Promise<void> {
  for (const store of source.records)
    display.say(`${store.collection.name}: ${await store.count()}`);
  display.say(`login tokens: ${[...source.tokens.current(Date.now())].length}`);
  display.say(`jobs: ${await jobTotal(source.jobs)}`);
  display.say(`callbacks: ${(await source.jobs.outboxPending(Number.MAX_SAFE_INTEGER)).length}`);
  display.say(`paused queues: ${(await source.jobs.pausedQueues()).join(", ") || "none"}`);
  for (const { bucket, objects, bytes } of source.objects.sizes())
    display.say(`objects in ${bucket}: ${objects}, ${bytes} bytes`);
}

async function tellSecrets(dir: string, file: string | undefined): Promise<void> {
  const secrets = secretsIn(dir);
  const names = Object.keys(secrets);
  if (names.length === 0) return;
  display.say(
    `\nLinks, tokens and uploads are signed with secrets of this installation. Set on every node of the cluster: ${names.join(", ")}, with the values of ${dir}/secrets.json, but for those that the environment of the installation has set; and OSS_BUCKET_NAME as it was there.`,
  );
  if (file === undefined) display.say("--secrets FILE writes them as NAME=value.");
  else {
    await writeSecrets(file, secrets);
    display.say(`Written to ${file}: keep it as safe as ${dir}.`);
  }
}

for (const name of ["SIGINT", "SIGTERM"] as const)
  process.once(name, () => stop.abort(new MoveError("broken off; the same command goes on")));

main().catch((error: unknown) => {
  const { code, message } = error as Error & { code?: unknown };
  const known = asAppError(error);
  const isSentence =
    error instanceof MoveError ||
    error instanceof ConfigError ||
    (typeof code === "string" && code.startsWith("ERR_PARSE_ARGS"));
  if (isSentence) console.error(`migrate: ${message}`);
  else if (known)
    console.error(
      `migrate: ${message.replace(/\.$/, "")}. The same command goes on where this one ended.`,
    );
  else console.error(error);
  process.exitCode = 1;
});

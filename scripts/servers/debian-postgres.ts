import { existsSync } from "node:fs";
import { chown, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { aptInstall, findProgram, isRoot, runStep } from "./install-steps.ts";
import { installOnce, type Progress, ServerMissing } from "./server-cache.ts";

const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
/** Change this when what is installed below changes: a folder of another name is installed beside the old one. */
const FOLDER = "debian-testing-documentdb-1";
const PACKAGES = ["postgresql-18", "postgresql-18-documentdb"];
const BIN = "/usr/lib/postgresql/18/bin";
/** Where a cluster appears inside the folder. Short, because its socket's path may have 107 characters at most. */
const INSIDE = "/srv/cluster";

const missing = (what: string) =>
  new ServerMissing(
    `The MongoDB-compatible server needs ${what}: its PostgreSQL runs in a folder of Debian testing. Set MONGO_URL to a running MongoDB or FerretDB 2 instead.`,
  );

/**
 * PostgreSQL with the DocumentDB extension in a folder of Debian testing, since no other packages of it exist, and a
 * cluster that has the extension, to be copied for each run.
 */
export interface DebianPostgres {
  /** Makes `dir` a new cluster, as fast as copying it. */
  copyCluster(dir: string): Promise<void>;
  /** Command line that runs one of PostgreSQL's programs with the cluster of `dir`. */
  command(
    dir: string,
    program: string,
    args: readonly string[],
  ): { command: string; args: string[] };
}

/** Settings for every start. Durability is PostgreSQL's own, fsync included: tests pull plugs. */
export const postgresArgs = [
  ...["-D", `${INSIDE}/data`],
  ...Object.entries({
    listen_addresses: "",
    unix_socket_directories: `${INSIDE}/run`,
    unix_socket_permissions: "0700",
    shared_preload_libraries: "pg_cron,pg_documentdb_core,pg_documentdb",
    // Nothing of it may stay in the system when it is killed.
    dynamic_shared_memory_type: "mmap",
    max_connections: "200",
    log_min_messages: "warning",
    "cron.database_name": "postgres",
    "cron.host": `${INSIDE}/run`,
    "cron.log_run": "off",
    "cron.log_statement": "off",
    "documentdb.localhost_connection_string": `host=${INSIDE}/run`,
  }).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
];

/** @throws ServerMissing where no folder of Debian can be used. */
export function requireDebian(): void {
  if (process.platform !== "linux") throw missing("Linux");
  if (!isRoot()) throw missing("root, for chroot");
}

export async function debianPostgres(progress: Progress): Promise<DebianPostgres> {
  requireDebian();
  const folder = await installOnce(FOLDER, progress, (partial) => install(partial, progress));
  return postgresIn(folder);
}

async function postgresIn(folder: string): Promise<DebianPostgres> {
  const root = join(folder, "root");
  const owner = await postgresUser(root);
  const command = (dir: string, program: string, args: readonly string[]) => ({
    // The mount and shared memory are seen by this process and its children only, and vanish with the last of them.
    command: "unshare",
    args: [
      ...["--mount", "--ipc", "sh", "-c"],
      'mount --bind "$1" "$2$3" && root="$2" && owner="$4" && shift 4 && exec chroot --userspec="$owner" "$root" "$@"',
      ...["sh", dir, root, INSIDE, owner, `${BIN}/${program}`, ...args],
    ],
  });
  return {
    command,
    async copyCluster(dir) {
      const partial = `${dir}.partial`;
      await rm(partial, { recursive: true, force: true });
      await runStep("cp", ["-a", join(folder, "cluster"), partial]);
      await rename(partial, dir);
    },
  };
}

async function postgresUser(root: string): Promise<string> {
  const line = (await readFile(join(root, "etc/passwd"), "utf8"))
    .split("\n")
    .find((entry) => entry.startsWith("postgres:"));
  const [, , uid, gid] = line?.split(":") ?? [];
  if (uid === undefined || gid === undefined) throw new Error(`${root} has no user postgres`);
  return `${uid}:${gid}`;
}

async function install(folder: string, progress: Progress): Promise<void> {
  const mirror = await debianMirror();
  const ready = () =>
    ["debootstrap", "unshare", "chroot"].every((tool) => findProgram(tool)) && existsSync(KEYRING);
  const packages = ["debootstrap", "debian-archive-keyring", "util-linux"];
  if (!ready() && !(await aptInstall(packages, ready, progress))) throw missing("debootstrap");
  const root = join(folder, "root");
  progress("fetching Debian testing for PostgreSQL, a minute or two");
  // In a mount namespace of its own: whatever it mounts is gone with it, even when it is killed.
  await runStep("unshare", [
    ...["--mount", "debootstrap", "--variant=minbase", `--keyring=${KEYRING}`],
    ...["testing", root, mirror],
  ]);
  await writeFile(join(root, "etc/dpkg/dpkg.cfg.d/fast"), "force-unsafe-io\n");
  await writeFile(join(root, "etc/apt/apt.conf.d/90machine"), await aptTransport());
  await writeFile(join(root, "usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  await mkdir(join(root, "etc/postgresql-common"), { recursive: true });
  await writeFile(
    join(root, "etc/postgresql-common/createcluster.conf"),
    "create_main_cluster = false\n",
  );
  await mkdir(join(root, INSIDE), { recursive: true });
  progress(`installing ${PACKAGES.join(", ")} there`);
  const steps = [
    "export DEBIAN_FRONTEND=noninteractive",
    "apt-get -o Acquire::Check-Valid-Until=false -q update",
    `apt-get -q install -y --no-install-recommends ${PACKAGES.join(" ")}`,
    "apt-get clean",
    "rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/*",
  ];
  await runStep("unshare", [
    ...["--mount", "sh", "-c", 'mount -t proc proc "$1/proc" && exec chroot "$1" sh -c "$2"'],
    ...["sh", root, steps.join(" && ")],
  ]);
  await makeCluster(folder, progress);
}

/** The cluster that runs copy. Making it proves at the same time that everything works. */
async function makeCluster(folder: string, progress: Progress): Promise<void> {
  progress("making an empty database with the DocumentDB extension");
  const [postgres, cluster] = [await postgresIn(folder), join(folder, "cluster")];
  const [uid, gid] = (await postgresUser(join(folder, "root"))).split(":").map(Number);
  for (const dir of [cluster, join(cluster, "data"), join(cluster, "run")]) {
    await mkdir(dir, { mode: 0o700 });
    await chown(dir, uid!, gid!);
  }
  const run = (program: string, args: readonly string[]) => {
    const line = postgres.command(cluster, program, args);
    return runStep(line.command, line.args);
  };
  await run("initdb", [
    ...["-D", `${INSIDE}/data`, "-U", "postgres", "--auth=trust"],
    ...["--encoding=UTF8", "--locale=C.UTF-8"],
  ]);
  const options = postgresArgs.slice(2).map((word) => (word === "-c" ? word : `'${word}'`));
  const control = ["-D", `${INSIDE}/data`, "-w", "-s", "-l", `${INSIDE}/first.log`];
  await run("pg_ctl", [...control, "-o", options.join(" "), "start"]);
  try {
    await run("psql", [
      ...["-h", `${INSIDE}/run`, "-U", "postgres", "-v", "ON_ERROR_STOP=1"],
      ...["-c", "CREATE EXTENSION documentdb CASCADE"],
    ]);
  } finally {
    await run("pg_ctl", [...control, "-m", "fast", "stop"]);
  }
}

/** Where this machine's own apt fetches Debian from; DEBIAN_MIRROR goes before it. */
async function debianMirror(): Promise<string> {
  const named = process.env["DEBIAN_MIRROR"];
  if (named) return named;
  const listed = await runStep("apt-get", ["indextargets", "--format", "$(REPO_URI)"]).catch(
    () => "",
  );
  const mirror = listed.split("\n").find((uri) => /\/debian\/?$/.test(uri));
  if (mirror) return mirror;
  throw missing("a mirror of Debian (DEBIAN_MIRROR), which this machine's apt does not name");
}

/** Proxies and the like that this machine's apt needs to reach its mirror. */
async function aptTransport(): Promise<string> {
  const dump = await runStep("apt-config", ["dump"]);
  return `${dump
    .split("\n")
    .filter((line) => /^Acquire::https?::.*"[^"]/.test(line))
    .join("\n")}\n`;
}

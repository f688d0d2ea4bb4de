import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, open, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import type { Cluster } from "../cluster/cluster.ts";
import type { ClusterProcess, ProcessPlan } from "../cluster/cluster-process.ts";
import type { ServerName } from "../servers/server.ts";
import { orphanProcesses } from "./chaos-check.ts";
import type { FaultKind, PlannedFault } from "./chaos-plan.policy.ts";

const run = promisify(execFile);

/** A fault that has been done: what was hit, and how it is taken back. */
export interface DoneFault {
  target: string;
  undo: () => Promise<void>;
}

/** Library that lets one process and its children see another time; part of many distributions. */
const CLOCK_LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
const START_TRIES = 30;
const START_PAUSE_MS = 1_000;
/** Size of the disk that is filled; far more than the small jobs of a run need. */
const DISK_MIB = 256;

/** What a run adds to the plan of its processes, so that a disk can be filled and a clock can jump. */
export class FaultRig {
  readonly #dir: string;
  /** The compose node with a small disk of its own. */
  readonly #smallDisk = "compose-1";
  /** The nodes whose clock can jump. */
  readonly #movedClocks = ["compose-2", "scheduler-1"];
  #mounted: string | undefined;

  constructor(dir: string) {
    this.#dir = dir;
  }

  get canFillDisk(): boolean {
    return this.#mounted !== undefined;
  }
  get canMoveClock(): boolean {
    return existsSync(CLOCK_LIBRARY);
  }
  get smallDisk(): string {
    return this.#smallDisk;
  }
  get movedClocks(): readonly string[] {
    return this.#movedClocks;
  }

  /** Mounts the small disk, where that is permitted. */
  async prepare(): Promise<void> {
    const place = join(this.#dir, this.#smallDisk);
    await mkdir(place, { recursive: true });
    try {
      await run("mount", ["-t", "tmpfs", "-o", `size=${DISK_MIB}m`, "tmpfs", place]);
      this.#mounted = place;
    } catch {
      // Not permitted: the fault is left out and the report says so.
    }
    if (this.canMoveClock) for (const name of this.#movedClocks) await this.moveClock(name, 0);
  }

  adapt(plan: ProcessPlan): ProcessPlan {
    if (!this.canMoveClock || !this.#movedClocks.includes(plan.name)) return plan;
    return {
      ...plan,
      env: {
        ...plan.env,
        LD_PRELOAD: CLOCK_LIBRARY,
        FAKETIME_TIMESTAMP_FILE: this.#clockFile(plan.name),
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
        FAKETIME_CACHE_DURATION: "1",
      },
    };
  }

  /** Sets the wall clock of a node so many seconds off. */
  async moveClock(name: string, seconds: number): Promise<void> {
    await writeFile(this.#clockFile(name), `${seconds < 0 ? "-" : "+"}${Math.abs(seconds)}\n`);
  }

  /** Fills the small disk; the answer frees it again. */
  async fillDisk(): Promise<() => Promise<void>> {
    const file = join(this.#mounted as string, "filler");
    const handle = await open(file, "w");
    const block = Buffer.alloc(1024 * 1024);
    try {
      for (let n = 0; n < DISK_MIB; n += 1) await handle.write(block);
    } catch {
      // Full, as it should be.
    }
    await handle.close();
    return () => rm(file, { force: true });
  }

  async close(): Promise<void> {
    if (this.#mounted) await run("umount", ["-l", this.#mounted]).catch(() => {});
    this.#mounted = undefined;
  }

  #clockFile(name: string): string {
    return join(this.#dir, `${name}.clock`);
  }
}

const serverOf: Partial<Record<FaultKind, ServerName>> = {
  "restart-nats": "nats",
  "restart-redis": "redis",
  "restart-database": "mongo",
  "restart-s3": "s3",
};

/** The machine is gone with all that ran and lay there; another one takes its place. */
async function forget({ dataDir }: ClusterProcess): Promise<void> {
  for (const pid of await orphanProcesses(dataDir)) process.kill(Number(pid), "SIGKILL");
  // The directory itself may be where a disk is mounted.
  for (const name of await readdir(dataDir))
    await rm(join(dataDir, name), { recursive: true, force: true });
}

/** A process may come up into another fault, a full disk or a database that is away: it is started until it serves. */
async function startAgain(process: ClusterProcess): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await process.start();
    } catch (error) {
      if (tries === START_TRIES) throw error;
      await pause(START_PAUSE_MS);
    }
  }
}

/** Does faults to a cluster, never two to the same target at once. */
export class Faults {
  readonly #cluster: Cluster;
  readonly #rig: FaultRig;
  /** Name of the process that leads; undefined when nobody answers. */
  readonly #leader: () => Promise<string | undefined>;
  readonly #busy = new Set<string>();

  constructor(cluster: Cluster, rig: FaultRig, leader: () => Promise<string | undefined>) {
    this.#cluster = cluster;
    this.#rig = rig;
    this.#leader = leader;
  }

  /** Whether this machine and this cluster allow a kind. */
  isPossible(kind: FaultKind): boolean {
    const server = serverOf[kind];
    if (server) return !this.#cluster.servers.get(server).given;
    if (kind === "cut-compose") return this.#cluster.hosts.size > 0;
    if (kind === "fill-disk") return this.#rig.canFillDisk;
    if (kind === "jump-clock") return this.#rig.canMoveClock;
    return true;
  }

  /** Undefined when there is no free target at this moment. */
  async apply(fault: PlannedFault): Promise<DoneFault | undefined> {
    const server = serverOf[fault.kind];
    if (server) return this.#hold(server, () => this.#stopServer(server, fault));
    if (fault.kind === "fill-disk")
      return this.#hold("disk", async () => ({
        target: this.#rig.smallDisk,
        undo: await this.#rig.fillDisk(),
      }));
    if (fault.kind === "jump-clock") return this.#hold("clock", () => this.#jump(fault));
    const target = await this.#target(fault);
    return target && this.#hold(target.name, () => this.#hit(target, fault));
  }

  async #hold(name: string, act: () => Promise<DoneFault>): Promise<DoneFault | undefined> {
    if (this.#busy.has(name)) return undefined;
    this.#busy.add(name);
    try {
      const { target, undo } = await act();
      return { target, undo: () => undo().finally(() => this.#busy.delete(name)) };
    } catch (error) {
      this.#busy.delete(name);
      throw error;
    }
  }

  async #target({ kind, choice }: PlannedFault): Promise<ClusterProcess | undefined> {
    const role = kind.endsWith("-leader") ? "scheduler" : kind.split("-")[1];
    let free = this.#cluster.processes.filter(
      (process) => process.plan.role === role && process.isRunning && !this.#busy.has(process.name),
    );
    if (kind.endsWith("-leader")) {
      const leader = await this.#leader();
      free = free.filter(({ name }) => name === leader);
    }
    return free[Math.floor(choice * free.length)];
  }

  async #hit(process: ClusterProcess, { kind }: PlannedFault): Promise<DoneFault> {
    const target = process.name;
    if (kind === "cut-compose") {
      const host = this.#cluster.hosts.get(target);
      await host?.cut();
      return { target, undo: async () => host?.heal() };
    }
    if (kind.startsWith("freeze-")) {
      process.signal("SIGSTOP");
      return { target, undo: async () => process.signal("SIGCONT") };
    }
    await process.kill();
    if (kind === "replace-compose") await forget(process);
    return { target, undo: () => startAgain(process) };
  }

  async #stopServer(name: ServerName, { choice }: PlannedFault): Promise<DoneFault> {
    const server = this.#cluster.servers.get(name);
    const parts = server.parts;
    const part = parts[Math.floor(choice * parts.length)] as string;
    await server.kill(part);
    return { target: parts.length > 1 ? `${name} (${part})` : name, undo: () => server.start() };
  }

  async #jump({ choice }: PlannedFault): Promise<DoneFault> {
    const names = this.#rig.movedClocks;
    const name = names[Math.floor(choice * names.length)] as string;
    // The second digit of the choice tells the direction: an hour forward or back.
    const seconds = Math.floor(choice * 100) % 2 === 0 ? 3_600 : -3_600;
    await this.#rig.moveClock(name, seconds);
    return {
      target: `${name} (${seconds > 0 ? "+" : "-"}1 h)`,
      undo: () => this.#rig.moveClock(name, 0),
    };
  }
}

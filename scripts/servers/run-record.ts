import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ProcessIdentity } from "../../services/compose/node-ports.ts";
import { identify, isSameProcess } from "../../services/compose/process-group.ts";
import { killTree } from "./process-tree.ts";
import { cacheDir } from "./server-cache.ts";

interface Notes {
  owner: ProcessIdentity;
  /** Folder to remove with the run; absent where the user chose it. */
  dir?: string;
  processes: ProcessIdentity[];
}

const folder = () => join(cacheDir(), "runs");

/**
 * What a run of servers has started, on disk, so that it is cleaned up whatever way its owner ends: at once by a
 * watchdog that sees the owner's end of a pipe close, and after a crash of the machine by the next run.
 */
export class RunRecord {
  readonly #file: string;
  readonly #notes: Notes;
  #watchdog: ChildProcess | undefined;

  private constructor(file: string, notes: Notes) {
    this.#file = file;
    this.#notes = notes;
    this.#write();
  }

  static async open(dir: string | undefined): Promise<RunRecord> {
    const owner = await identify(process.pid);
    if (!owner) throw new Error("this process cannot be found");
    mkdirSync(folder(), { recursive: true });
    const record = new RunRecord(join(folder(), `${randomUUID()}.json`), {
      owner,
      ...(dir === undefined ? {} : { dir }),
      processes: [],
    });
    record.#watchdog = spawn(
      process.execPath,
      [fileURLToPath(new URL("./watchdog.ts", import.meta.url)), record.#file],
      {
        detached: true,
        stdio: ["pipe", "ignore", "ignore"],
        cwd: "/",
        env: { ...process.env, NODE_OPTIONS: "" },
      },
    );
    return record;
  }

  add(started: ProcessIdentity): void {
    this.#notes.processes.push(started);
    this.#write();
  }

  remove(ended: ProcessIdentity): void {
    this.#notes.processes = this.#notes.processes.filter((one) => one !== ended);
    this.#write();
  }

  /** Everything has ended in good order. */
  async close(): Promise<void> {
    await cleanUp(this.#notes);
    rmSync(this.#file, { force: true });
    const watchdog = this.#watchdog;
    if (!watchdog || watchdog.exitCode !== null || watchdog.signalCode !== null) return;
    const exited = once(watchdog, "exit");
    watchdog.stdin?.end();
    await exited;
  }

  #write(): void {
    writeFileSync(`${this.#file}.tmp`, JSON.stringify(this.#notes));
    renameSync(`${this.#file}.tmp`, this.#file);
  }
}

async function cleanUp({ dir, processes }: Notes): Promise<void> {
  await Promise.all(processes.map(killTree));
  if (dir !== undefined) await rm(dir, { recursive: true, force: true });
}

/** Ends what a record names and forgets it. Safe to repeat, and for two at the same time. */
export async function cleanUpRecord(file: string): Promise<void> {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return;
  }
  await cleanUp(JSON.parse(text) as Notes);
  rmSync(file, { force: true });
}

/** Cleans up after runs whose owner is gone. */
export async function sweepStaleRuns(): Promise<void> {
  const names = await readdir(folder()).catch(() => []);
  for (const name of names.filter((entry) => entry.endsWith(".json"))) {
    const file = join(folder(), name);
    try {
      const { owner } = JSON.parse(await readFile(file, "utf8")) as Notes;
      if (!(await isSameProcess(owner))) await cleanUpRecord(file);
    } catch {
      // Another run is just removing it.
    }
  }
}

import { type FileHandle, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setImmediate as endOfTurn } from "node:timers/promises";
import { syncDirectory } from "../../lib/sync-directory.ts";
import type { AttemptKey, JournalEntry, NodeJournal, ProcessIdentity } from "./node-ports.ts";
import { identify, isSameProcess } from "./process-group.ts";

type Line =
  | { owner: ProcessIdentity; host: string }
  | { add: JournalEntry }
  | { process: ProcessIdentity; of: AttemptKey }
  | { release: AttemptKey }
  | { remove: AttemptKey };

const keyText = ({ jobId, attempt }: AttemptKey) => `${jobId}/${attempt}`;
const suffix = ".journal";

interface Contents {
  owner?: ProcessIdentity;
  host?: string;
  entries: Map<string, JournalEntry>;
}

function apply(contents: Contents, line: Line): void {
  const { entries } = contents;
  if ("owner" in line) Object.assign(contents, { owner: line.owner, host: line.host });
  else if ("add" in line) {
    entries.set(keyText(line.add), { ...line.add, processes: [...line.add.processes] });
  } else if ("process" in line) {
    const entry = entries.get(keyText(line.of));
    entry?.processes.push(line.process);
  } else if ("release" in line) {
    const entry = entries.get(keyText(line.release));
    if (entry) entry.released = true;
  } else entries.delete(keyText(line.remove));
}

/** A crash may cut the last line; whatever it said was not yet answered to anybody. */
function parse(text: string): Contents {
  const contents: Contents = { entries: new Map() };
  for (const line of text.split("\n")) {
    if (!line) continue;
    try {
      apply(contents, JSON.parse(line) as Line);
    } catch {
      break;
    }
  }
  return contents;
}

/**
 * The attempts of one node process, in a file that lines are appended to and fsynced, many at once when many
 * wait. A new process takes over the files of processes of this host that live no more.
 */
export class FileJournal implements NodeJournal {
  readonly #path: string;
  readonly #owner: { owner: ProcessIdentity; host: string };
  readonly #contents: Contents;
  readonly #linesMax: number;
  #file: FileHandle;
  #lines = 0;
  #queue: { line: Line; resolve: () => void; reject: (error: Error) => void }[] = [];
  #writing: Promise<void> | undefined;
  #closed = false;

  private constructor(
    path: string,
    file: FileHandle,
    owner: { owner: ProcessIdentity; host: string },
    contents: Contents,
    linesMax: number,
  ) {
    this.#path = path;
    this.#file = file;
    this.#owner = owner;
    this.#contents = contents;
    this.#linesMax = linesMax;
  }

  /** Opens the journal of a new process in `directory` and adopts what dead processes left there. */
  static async open(directory: string, linesMax: number): Promise<FileJournal> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const self = (await identify(process.pid)) ?? { pid: process.pid, startMark: "" };
    const owner = { owner: self, host: hostname() };
    const contents: Contents = { entries: new Map() };
    const adopted: string[] = [];
    for (const name of await readdir(directory)) {
      if (!name.endsWith(suffix)) continue;
      const path = join(directory, name);
      const left = parse(await readFile(path, "utf8").catch(() => ""));
      if (left.host !== undefined && left.host !== owner.host) continue;
      if (left.owner && (await isSameProcess(left.owner))) continue;
      for (const [key, entry] of left.entries) contents.entries.set(key, entry);
      adopted.push(path);
    }
    const path = join(
      directory,
      `${owner.host}-${process.pid}-${Date.now().toString(36)}${suffix}`,
    );
    const file = await writeWhole(path, owner, contents);
    const journal = new FileJournal(path, file, owner, contents, linesMax);
    // Only now that the entries are on disk under our own name.
    for (const old of adopted) await rm(old, { force: true });
    return journal;
  }

  entries(): JournalEntry[] {
    return [...this.#contents.entries.values()].map((entry) => ({
      ...entry,
      processes: [...entry.processes],
    }));
  }
  add(entry: JournalEntry): Promise<void> {
    return this.#append({ add: entry });
  }
  addProcess(of: AttemptKey, process: ProcessIdentity): Promise<void> {
    return this.#append({ process, of });
  }
  release(key: AttemptKey): Promise<void> {
    return this.#append({ release: key });
  }
  remove(key: AttemptKey): Promise<void> {
    return this.#append({ remove: key });
  }

  /** Writes what waits; the file goes if there is nothing in it that the next start must know. */
  async close(): Promise<void> {
    if (this.#closed) return;
    await this.#writing;
    this.#closed = true;
    await this.#file.close();
    if (this.#contents.entries.size === 0) await rm(this.#path, { force: true });
  }

  #append(line: Line): Promise<void> {
    if (this.#closed) return Promise.reject(new Error("the journal is closed"));
    return new Promise((resolve, reject) => {
      this.#queue.push({ line, resolve, reject });
      this.#writing ??= this.#drain();
    });
  }

  async #drain(): Promise<void> {
    // Orders that one commit of the scheduler set free come in one turn: they share the first sync.
    await endOfTurn();
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0);
      try {
        if (this.#lines > this.#linesMax) await this.#compact();
        const text = batch.map(({ line }) => `${JSON.stringify(line)}\n`).join("");
        await this.#file.appendFile(text);
        // The other lines serve a process that was killed, not a machine that lost power: a lost machine has no
        // orphans, and an attempt that is handed back twice is ignored. They need not wait for the disk.
        if (batch.some(({ line }) => "add" in line)) await this.#file.datasync();
        for (const { line } of batch) apply(this.#contents, line);
        this.#lines += batch.length;
        for (const { resolve } of batch) resolve();
      } catch (error) {
        // The failed write may have left half a line: the file is written anew before anything follows it.
        this.#lines = Number.POSITIVE_INFINITY;
        for (const { reject } of batch) reject(error as Error);
      }
    }
    // In the same turn as the last look at the queue: a line that comes after it starts a new round.
    this.#writing = undefined;
  }

  async #compact(): Promise<void> {
    const file = await writeWhole(this.#path, this.#owner, this.#contents);
    await this.#file.close();
    this.#file = file;
    this.#lines = 0;
  }
}

/** Writes a file anew so that a crash leaves either the old or the new one; answers it opened for appending. */
async function writeWhole(
  path: string,
  owner: { owner: ProcessIdentity; host: string },
  contents: Contents,
): Promise<FileHandle> {
  const temporary = `${path}.tmp`;
  const lines: Line[] = [owner, ...[...contents.entries.values()].map((add) => ({ add }))];
  const fresh = await open(temporary, "w", 0o600);
  try {
    await fresh.writeFile(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    await fresh.sync();
  } finally {
    await fresh.close();
  }
  await rename(temporary, path);
  await syncDirectory(join(path, ".."));
  return open(path, "a", 0o600);
}

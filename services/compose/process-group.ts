import { type ChildProcess, execFile, spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import { promisify } from "node:util";
import { AppError } from "../../lib/errors.ts";
import type { ExecutionLimits } from "./config.ts";
import type { ProcessExit, RunOptions } from "./executor.ts";
import { LineSplitter } from "./line-splitter.ts";
import type { ProcessIdentity } from "./node-ports.ts";

const execFileText = promisify(execFile);

/** Name of the environment variable by which a node finds what it has started, whatever became of the groups. */
export const markVariable = "REELMESH_ATTEMPT";

/** Start of a process in the system's own form; undefined when there is no such process. */
async function startMark(pid: number): Promise<string | undefined> {
  if (process.platform === "linux") {
    try {
      const stat = await readFile(`/proc/${pid}/stat`, "utf8");
      // The name in brackets may hold anything; the fields after it are fixed. A zombie is no process any more.
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (fields[0] === "Z" || fields[0] === "X") return undefined;
      return `${await systemStart()}:${fields[19]}`;
    } catch {
      return undefined;
    }
  }
  try {
    const { stdout } = await execFileText("ps", ["-o", "lstart=", "-p", String(pid)]);
    return stdout.trim() || undefined;
  } catch {
    return undefined;
  }
}

let systemStartText: Promise<string> | undefined;
/** Start marks count from the start of the system, so they mean something only together with it. */
function systemStart(): Promise<string> {
  systemStartText ??= readFile("/proc/sys/kernel/random/boot_id", "utf8").then(
    (text) => text.trim(),
    () => "",
  );
  return systemStartText;
}

export async function identify(pid: number): Promise<ProcessIdentity | undefined> {
  const mark = await startMark(pid);
  return mark === undefined ? undefined : { pid, startMark: mark };
}

export async function isSameProcess(identity: ProcessIdentity): Promise<boolean> {
  return (await startMark(identity.pid)) === identity.startMark;
}

function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(process.platform === "win32" ? pid : -pid, signal);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Members of a group that still run. A zombie that nobody has collected yet does not count. */
async function groupRuns(pid: number): Promise<boolean> {
  if (!signalGroup(pid, 0)) return false;
  if (process.platform !== "linux") return true;
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = await readFile(`/proc/${name}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (Number(fields[2]) === pid && fields[0] !== "Z" && fields[0] !== "X") return true;
    } catch {
      // It ended while we looked.
    }
  }
  return false;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks a process group to end, then forces it. Resolves when no member of it runs any more. */
export async function killGroup(pid: number, graceMs: number): Promise<void> {
  signalGroup(pid, "SIGTERM");
  const forceAt = performance.now() + graceMs;
  let forced = false;
  for (let waitMs = 5; await groupRuns(pid); waitMs = Math.min(waitMs * 2, 100)) {
    if (!forced && performance.now() >= forceAt) {
      forced = true;
      signalGroup(pid, "SIGKILL");
    }
    // A process that cannot even be killed hangs in the kernel; nobody can do more about it.
    if (performance.now() >= forceAt + 5_000) return;
    await pause(waitMs);
  }
}

/** Kills what an earlier run left of an attempt: the groups that it recorded, and anything that bears its mark. */
export async function killLeftovers(
  identities: readonly ProcessIdentity[],
  mark: string,
  graceMs: number,
): Promise<number> {
  const groups = new Set<number>();
  for (const identity of identities) if (await isSameProcess(identity)) groups.add(identity.pid);
  for (const pid of await markedProcesses(mark)) groups.add(pid);
  await Promise.all(
    [...groups].map(async (pid) => {
      if (signalGroup(pid, 0)) return killGroup(pid, graceMs);
      // Not the leader of a group of its own: its leader is gone, it is not.
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended by itself.
      }
    }),
  );
  return groups.size;
}

/** Closes the gap between the start of a process and its line in the journal. Only Linux tells. */
async function markedProcesses(mark: string): Promise<number[]> {
  if (process.platform !== "linux") return [];
  const wanted = Buffer.from(`${markVariable}=${mark}\0`);
  const found: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      if ((await readFile(`/proc/${name}/environ`)).includes(wanted)) found.push(Number(name));
    } catch {
      // Another user's, or gone.
    }
  }
  return found;
}

export interface GroupOptions extends RunOptions {
  signal: AbortSignal;
  /** Written into the environment of the process. */
  mark: string;
  /** Called with the new process before any of its output is read; a rejection kills it. */
  started: (identity: ProcessIdentity) => Promise<void>;
  limits: ExecutionLimits;
}

/**
 * Runs a program in a process group of its own. However it ends, no member of the group is left when the
 * promise settles. Rejects with the abort reason, or when the program cannot be started.
 */
export async function runInGroup(
  command: string,
  args: readonly string[],
  options: GroupOptions,
): Promise<ProcessExit> {
  const { signal, limits } = options;
  signal.throwIfAborted();
  const child = spawn(command, args, {
    cwd: options.cwd,
    detached: process.platform !== "win32",
    stdio: ["ignore", "pipe", "pipe"],
    windowsHide: true,
    env: { ...process.env, [markVariable]: options.mark },
  });
  const ended = exitOf(child);
  if (child.pid === undefined) {
    const error = (await ended.catch((cause: Error) => cause)) as Error;
    throw new AppError("UNAVAILABLE", { reason: `cannot start ${command}: ${error.message}` });
  }
  const pid = child.pid;
  let killing: Promise<void> | undefined;
  const kill = () => {
    killing ??= killGroup(pid, limits.killGraceMs);
  };
  signal.addEventListener("abort", kill, { once: true });
  let stderrTail = "";
  try {
    const out = new LineSplitter(limits.lineCharsMax, (line) => options.onLine?.(line));
    const err = new LineSplitter(limits.lineCharsMax, (line) => {
      stderrTail = `${stderrTail}${line}\n`.slice(-limits.stderrTailChars);
      options.onErrorLine?.(line);
    });
    const release = holdBack([
      [child.stdout, out],
      [child.stderr, err],
    ]);
    const identity = await identify(pid);
    if (identity) await options.started(identity);
    release();
    const exit = await ended;
    out.end();
    err.end();
    signal.throwIfAborted();
    return { ...exit, stderrTail };
  } finally {
    signal.removeEventListener("abort", kill);
    // Its own children, if it left any, end with it.
    if (killing || signalGroup(pid, 0)) kill();
    await killing;
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}

/**
 * Listens at once, since Node drops what nobody listens for when a process ends, but passes nothing on until
 * the answered function is called.
 */
function holdBack(pipes: readonly [Readable | null, LineSplitter][]): () => void {
  let held: (() => void)[] | undefined = [];
  for (const [pipe, lines] of pipes) {
    pipe?.setEncoding("utf8").on("data", (text: string) => {
      if (held) held.push(() => lines.push(text));
      else lines.push(text);
    });
    pipe?.pause();
  }
  return () => {
    for (const pass of held ?? []) pass();
    held = undefined;
    for (const [pipe] of pipes) pipe?.resume();
  };
}

/** Resolves when the process has ended and its pipes are read, or are still held by a child of its own. */
function exitOf(
  child: ChildProcess,
): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal }));
    child.once("exit", (code, signal) => {
      setTimeout(() => resolve({ code, signal }), 500).unref();
    });
  });
}

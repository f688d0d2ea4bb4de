import { readdir, readFile } from "node:fs/promises";
import type { ProcessIdentity } from "../../services/compose/node-ports.ts";
import { identify, isSameProcess } from "../../services/compose/process-group.ts";
import { limits } from "./config.ts";

/**
 * A process and everything below it. Not the process group: PostgreSQL gives each of its processes a session of its
 * own. Elsewhere than on Linux only the process itself; the servers that run there have no children.
 */
async function treeOf(root: number): Promise<number[]> {
  const children = new Map<number, number[]>();
  const names = process.platform === "linux" ? await readdir("/proc") : [];
  for (const name of names.filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = await readFile(`/proc/${name}/stat`, "utf8");
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    } catch {
      // It ended while we looked.
    }
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

/** Stops the whole tree where it stands. The root first, so that it starts nothing more meanwhile. */
export async function pauseTree(root: number): Promise<void> {
  signal(root, "SIGSTOP");
  for (const pid of await treeOf(root)) signal(pid, "SIGSTOP");
}

export async function resumeTree(root: number): Promise<void> {
  for (const pid of (await treeOf(root)).reverse()) signal(pid, "SIGCONT");
}

/** Kills the tree of a process, if it is still that process. Resolves when no member of it runs any more. */
export async function killTree(root: ProcessIdentity): Promise<void> {
  if (!(await isSameProcess(root))) return;
  signal(root.pid, "SIGSTOP");
  const members = await Promise.all((await treeOf(root.pid)).map(identify));
  for (const member of members) if (member) signal(member.pid, "SIGKILL");
  await goneAll(members.filter((member) => member !== undefined));
}

/** Asks a tree to end in its own good order, and kills it if it does not. */
export async function endTree(root: ProcessIdentity, how: NodeJS.Signals): Promise<void> {
  if (!(await isSameProcess(root))) return;
  const members = await Promise.all((await treeOf(root.pid)).map(identify));
  signal(root.pid, how);
  // A process that is paused does not hear anything.
  await resumeTree(root.pid);
  const end = performance.now() + limits.stopGraceMs;
  while ((await isSameProcess(root)) && performance.now() < end) await shortly();
  await killTree(root);
  for (const member of members) if (member && (await isSameProcess(member))) await killTree(member);
}

async function goneAll(members: readonly ProcessIdentity[]): Promise<void> {
  const end = performance.now() + limits.killMs;
  for (const member of members)
    while ((await isSameProcess(member)) && performance.now() < end) await shortly();
}

const shortly = () => new Promise((resolve) => setTimeout(resolve, 10));

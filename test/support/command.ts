import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

export interface Command {
  child: ChildProcess;
  /** Everything it wrote so far, both streams. */
  text: () => string;
  /** Resolves when its output matches; rejects when it ends or 60 s pass before. */
  until: (pattern: RegExp) => Promise<RegExpExecArray>;
  /** Exit code, or the signal's name. */
  ended: Promise<number | string>;
}

const PATIENCE_MS = 60_000;

/** Runs one of the project's scripts as a user would, in a process of its own, killed at the latest with the test. */
export function runScript(
  script: string,
  { args = [], env = {}, input }: { args?: string[]; env?: Record<string, string>; input?: string },
): Command {
  const child = spawn(process.execPath, [`scripts/${script}.ts`, ...args], {
    cwd: root,
    env: { ...process.env, NODE_OPTIONS: "", ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let text = "";
  const watchers = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (chunk: string) => {
      text += chunk;
      for (const watch of watchers) watch();
    });
  }
  child.stdin.on("error", () => undefined);
  if (input !== undefined) child.stdin.end(input);
  const killer = () => child.kill("SIGKILL");
  process.once("exit", killer);
  const ended = new Promise<number | string>((resolve) => {
    child.once("close", (code, signal) => {
      process.off("exit", killer);
      resolve(code ?? signal ?? "?");
    });
  });
  const until = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const finish = (settle: () => void) => {
        clearTimeout(timer);
        watchers.delete(look);
        settle();
      };
      const look = () => {
        const match = pattern.exec(text);
        if (match) finish(() => resolve(match));
      };
      const fail = (why: string) =>
        finish(() => reject(new Error(`${script}: ${why} before ${pattern}; it wrote:\n${text}`)));
      const timer = setTimeout(() => fail(`${PATIENCE_MS} ms passed`), PATIENCE_MS);
      watchers.add(look);
      ended.then((code) => fail(`ended (${code})`));
      look();
    });
  return { child, text: () => text, until, ended };
}

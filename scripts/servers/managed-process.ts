import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import type { ProcessIdentity } from "../../services/compose/node-ports.ts";
import { identify } from "../../services/compose/process-group.ts";
import { limits } from "./config.ts";
import { endTree, killTree, pauseTree, resumeTree } from "./process-tree.ts";
import type { RunRecord } from "./run-record.ts";

export interface Recipe {
  /** Name within its server, for example `postgres`. */
  name: string;
  command: string;
  args: readonly string[];
  env?: Record<string, string>;
  /** Both of its streams are appended here. */
  logFile: string;
  /** What asks it to end at once and in good order; default SIGTERM. */
  stopSignal?: NodeJS.Signals;
  /** Done before each start, when nothing of it runs. */
  prepare?: () => Promise<void>;
}

/** One process of a server, which can be ended in several ways and started again with the same data and port. */
export class ManagedProcess {
  readonly name: string;
  readonly #recipe: Recipe;
  readonly #record: RunRecord;
  #child: ChildProcess | undefined;
  #identity: ProcessIdentity | undefined;

  constructor(recipe: Recipe, record: RunRecord) {
    this.name = recipe.name;
    this.#recipe = recipe;
    this.#record = record;
  }

  get pid(): number {
    if (this.#identity === undefined) throw new Error(`${this.name} does not run`);
    return this.#identity.pid;
  }

  get runs(): boolean {
    const child = this.#child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** Resolves when the process exists, not when it answers. */
  async start(): Promise<void> {
    if (this.runs) return;
    const { command, args, env, logFile, prepare } = this.#recipe;
    await prepare?.();
    const log = openSync(logFile, "a", 0o600);
    try {
      this.#child = spawn(command, args, {
        // A group of its own, so that Ctrl-C reaches only us and the servers end in the right order.
        detached: true,
        stdio: ["ignore", log, log],
        env: { ...process.env, ...env },
      });
      await once(this.#child, "spawn");
    } finally {
      closeSync(log);
    }
    const identity = await identify(this.#child.pid!);
    // None: it has ended already, and whoever waits for its answer says why.
    this.#identity = identity;
    if (identity) this.#record.add(identity);
  }

  async stop(): Promise<void> {
    await this.#end((identity) => endTree(identity, this.#recipe.stopSignal ?? "SIGTERM"));
  }

  async kill(): Promise<void> {
    await this.#end(killTree);
  }

  async #end(how: (identity: ProcessIdentity) => Promise<void>): Promise<void> {
    const [child, identity] = [this.#child, this.#identity];
    if (!child || !identity) return;
    const exited = this.runs ? once(child, "exit") : undefined;
    await how(identity);
    await exited;
    this.#identity = undefined;
    this.#record.remove(identity);
  }

  async pause(): Promise<void> {
    await pauseTree(this.pid);
  }

  async resume(): Promise<void> {
    await resumeTree(this.pid);
  }

  /** The end of what it wrote, for error messages. */
  logTail(): string {
    const { logFile } = this.#recipe;
    return existsSync(logFile) ? readFileSync(logFile, "utf8").slice(-limits.logTailChars) : "";
  }
}

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, type WriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Longest time from the start of a process until it serves. */
const READY_MS_MAX = 60_000;
/** Time that a process gets to end by itself before it is killed. */
const STOP_MS_MAX = 25_000;

const START = fileURLToPath(new URL("../start.ts", import.meta.url));

export interface ProcessPlan {
  /** Name of the node in the mesh, of its directory and of its log. */
  name: string;
  role: string;
  env: Record<string, string>;
  /** Put before the command: `ip netns exec NAME`. */
  prefix?: readonly string[];
}

/** One node of a cluster as a real process with a directory of its own; it can be killed and started again. */
export class ClusterProcess {
  readonly plan: ProcessPlan;
  readonly dataDir: string;
  readonly logFile: string;
  readonly #log: WriteStream;
  #child: ChildProcess | undefined;
  /** Starts so far. */
  starts = 0;

  constructor(plan: ProcessPlan, dir: string) {
    this.plan = plan;
    this.dataDir = join(dir, plan.name);
    this.logFile = join(dir, `${plan.name}.log`);
    this.#log = createWriteStream(this.logFile, { flags: "a" });
  }

  get name(): string {
    return this.plan.name;
  }
  get pid(): number | undefined {
    return this.isRunning ? this.#child?.pid : undefined;
  }
  get isRunning(): boolean {
    const child = this.#child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** Starts the process; resolves when it serves, rejects with the end of its log when it does not. */
  async start(): Promise<void> {
    if (this.isRunning) return;
    this.starts += 1;
    await mkdir(this.dataDir, { recursive: true });
    const words = [...(this.plan.prefix ?? []), process.execPath, ...process.execArgv, START];
    const [command, ...args] = words as unknown as [string, ...string[]];
    // A group of its own: Ctrl-C in the terminal reaches the cluster, which stops its nodes in order.
    const child = spawn(command, args, {
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        ...this.plan.env,
        DATA_DIR: this.dataDir,
        NODE_ID: this.plan.name,
      },
    });
    this.#child = child;
    let said = "";
    const ready = new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`${this.name} did not serve within ${READY_MS_MAX} ms`)),
        READY_MS_MAX,
      );
      for (const stream of [child.stdout, child.stderr])
        stream?.on("data", (chunk: Buffer) => {
          this.#log.write(chunk);
          said = (said + chunk.toString()).slice(-4_000);
          if (/^reelmesh \S+ (serves|runs) /m.test(said)) {
            clearTimeout(timer);
            resolve();
          }
        });
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        clearTimeout(timer);
        reject(new Error(`${this.name} ended (${signal ?? code}):\n${said}`));
      });
    });
    await ready;
  }

  /** Sends a signal to the process alone, not to what it has started. */
  signal(signal: NodeJS.Signals): void {
    if (this.isRunning) this.#child?.kill(signal);
  }

  /** `kill -9`; resolves when the process is gone. What it has started is left to itself, as after a crash. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || !this.isRunning) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  /** A clean stop, cut short after a while; resolves when the process is gone. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child && this.isRunning) {
      const exited = once(child, "exit");
      child.kill("SIGCONT");
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
      await exited;
      clearTimeout(timer);
    }
  }

  /** Stops and lets go of the log. */
  async close(): Promise<void> {
    await this.stop();
    this.#log.end();
  }
}

import { once } from "node:events";
import { createServer } from "node:net";
import { limits } from "./config.ts";
import type { ManagedProcess } from "./managed-process.ts";
import type { RunRecord } from "./run-record.ts";
import type { Progress } from "./server-cache.ts";

export const serverNames = ["nats", "redis", "mongo", "s3"] as const;
export type ServerName = (typeof serverNames)[number];

/** Settings of the product, ready for its environment. */
export type ServerEnv = Record<string, string>;

export interface StartContext {
  /** Folder of this server's own. */
  dir: string;
  record: RunRecord;
  port: number;
  progress: Progress;
}

/** What there is to know about one kind of server. */
export interface ServerKind {
  name: ServerName;
  /** The setting that names a server to use instead of starting one. */
  setting: string;
  /** Settings that belong to it and are handed on when it is given. */
  companions: readonly string[];
  /** Finds or installs it. @throws ServerMissing with what to do. */
  install(progress: Progress): Promise<void>;
  /** Processes in the order in which they start, not started yet, and the settings that lead to them. */
  prepare(context: StartContext): Promise<{ processes: ManagedProcess[]; env: ServerEnv }>;
  /** Speaks to it in its own protocol; rejects when it does not answer. */
  ping(env: ServerEnv): Promise<void>;
}

/** A server that answers. One that was given by the environment can be used, not controlled. */
export class Server {
  readonly name: ServerName;
  readonly env: ServerEnv;
  readonly url: string;
  /** Set by the environment: not ours to stop. */
  readonly given: boolean;
  readonly #kind: ServerKind;
  readonly #processes: readonly ManagedProcess[];

  constructor(kind: ServerKind, env: ServerEnv, processes: readonly ManagedProcess[]) {
    this.name = kind.name;
    this.env = env;
    this.url = env[kind.setting]!;
    this.given = processes.length === 0;
    this.#kind = kind;
    this.#processes = processes;
  }

  /** Names of its processes, in the order in which they start. The last is the one that clients speak to. */
  get parts(): string[] {
    return this.#processes.map(({ name }) => name);
  }

  /** Process id of the part that clients speak to. */
  get pid(): number {
    return this.#ours().at(-1)!.pid;
  }

  /** Starts what does not run, on the same port with the same data. Resolves when it answers. */
  async start(): Promise<void> {
    for (const one of this.#ours()) await one.start();
    await this.answers();
  }

  /** Resolves when it answers; rejects when a process of it has ended or the time is over. */
  async answers(limitMs: number = limits.readyMs): Promise<void> {
    const end = performance.now() + limitMs;
    for (;;) {
      const reason = await bounded(this.#kind.ping(this.env)).then(
        () => undefined,
        (error: Error) => error,
      );
      if (!reason) return;
      const ended = this.#processes.find(({ runs }) => !runs);
      if (ended) throw new Error(`${ended.name} has ended; its log says:\n${ended.logTail()}`);
      if (performance.now() > end) {
        const logs = this.#processes.map((one) => `\n${one.name}: ${one.logTail()}`).join("");
        throw new Error(`${this.name} does not answer at ${this.url}: ${reason.message}${logs}`);
      }
      await new Promise((resolve) => setTimeout(resolve, limits.pingPauseMs));
    }
  }

  /** Ends it in good order; its data stays. */
  async stop(part?: string): Promise<void> {
    for (const one of this.#ours(part).reverse()) await one.stop();
  }

  /** `kill -9` of all of it at once, or of one of its parts. Resolves when it is gone. */
  async kill(part?: string): Promise<void> {
    await Promise.all(this.#ours(part).map((one) => one.kill()));
  }

  /** Stops what runs and starts it again on the same port with the same data. Resolves when it answers. */
  async restart(part?: string): Promise<void> {
    await this.stop(part);
    await this.start();
  }

  /** Freezes it as it stands: connections stay open and nothing answers. */
  async pause(part?: string): Promise<void> {
    for (const one of this.#ours(part).reverse()) await one.pause();
  }

  async resume(part?: string): Promise<void> {
    for (const one of this.#ours(part)) await one.resume();
  }

  #ours(part?: string): ManagedProcess[] {
    if (this.given)
      throw new Error(`${this.name} was given by ${this.#kind.setting}; it is not ours to control`);
    const found = this.#processes.filter(({ name }) => part === undefined || name === part);
    if (found.length === 0) throw new Error(`${this.name} has no part ${part}`);
    return found;
  }
}

/** A port of the loopback interface that nobody listens on at this moment. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, "close");
  return port;
}

/** A client that hangs must not hang the wait for its server. */
async function bounded(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in time")), limits.pingMs);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../scripts/servers/server.ts";
import { until } from "./until.ts";

const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    }).on("error", () => resolve(false));
  });

/** A redis-server of the test's own, which may be killed, held still and started again on the same port. */
export class RedisServer {
  readonly port: number;
  readonly #dir: string;
  #child: ChildProcess | undefined;

  private constructor(port: number, dir: string) {
    this.port = port;
    this.#dir = dir;
  }

  /** On a free port, with nothing in it; `down` leaves it off. */
  static async start({ down = false } = {}): Promise<RedisServer> {
    const server = new RedisServer(
      await freePort(),
      await mkdtemp(join(tmpdir(), "reelmesh-redis-")),
    );
    if (!down) await server.restart();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Starts it empty: nothing is kept on disk. */
  async restart(): Promise<void> {
    await this.kill();
    const options = { bind: "127.0.0.1", port: `${this.port}`, save: "", dir: this.#dir };
    const child = spawn(
      "redis-server",
      Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
      { stdio: "ignore" },
    );
    this.#child = child;
    await until(() => accepts(this.port), { what: "redis-server", limitMs: 20_000 });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#child = undefined;
    child.kill("SIGCONT");
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }

  /** Holds it still: connections stay, nothing is answered. */
  freeze(): void {
    this.#child?.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child?.kill("SIGCONT");
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.#dir, { recursive: true, force: true });
  }
}

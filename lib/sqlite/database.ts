import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import {
  type PackedReplies,
  type SqlValue,
  type Statement,
  type Unit,
  UnitPacker,
  type UnitResult,
  type WriterMessage,
} from "./writer-messages.ts";

export type { SqlValue, Statement, Unit, UnitResult } from "./writer-messages.ts";
export type Row = Record<string, SqlValue>;

/**
 * One SQLite file, WAL with `synchronous=FULL`. Writes go to a worker thread that commits whatever has
 * queued up in one transaction (group commit): a promise that resolves means fsynced. Reads run here, on a
 * connection of their own, and see the last commit.
 */
export class Database {
  readonly path: string;
  readonly #reader: DatabaseSync;
  readonly #worker: Worker;
  readonly #waiting = new Map<
    number,
    { resolve: (result: UnitResult) => void; reject: (error: Error) => void }
  >();
  readonly #statements = new Map<string, StatementSync>();
  #lastId = 0;
  readonly #packer = new UnitPacker();
  /** Units that were not sent yet; the last of them has the last id. */
  #outbox: Unit[] = [];
  #closed: Promise<void> | undefined;
  #failure: Error | undefined;

  private constructor(path: string, worker: Worker) {
    this.path = path;
    this.#worker = worker;
    this.#reader = new DatabaseSync(path, { readOnly: true });
    this.#reader.exec(
      "PRAGMA busy_timeout = 5000; PRAGMA query_only = ON; PRAGMA mmap_size = 268435456",
    );
    worker.on("message", (replies: PackedReplies) => this.#settle(replies));
    worker.on("error", (error) => this.#fail(error));
    worker.on("exit", () => this.#fail(new Error("the database writer has stopped")));
  }

  static async open(path: string): Promise<Database> {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const worker = new Worker(new URL("./writer.worker.ts", import.meta.url), {
      workerData: { path },
    });
    await new Promise<void>((resolve, reject) => {
      worker.once("message", () => resolve());
      worker.once("error", reject);
    });
    worker.removeAllListeners("error");
    // An idle writer must not keep a finished process alive.
    worker.unref();
    return new Database(path, worker);
  }

  /**
   * Runs a unit of work atomically and durably. Units are committed in the order in which they were given.
   * @returns `ok: false` when a guard (`mustChange`) refused it; then nothing of the unit was written.
   */
  write(statements: readonly Statement[]): Promise<UnitResult> {
    if (this.#failure) return Promise.reject(this.#failure);
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      if (this.#outbox.length === 0) setImmediate(() => this.#flush());
      this.#outbox.push(statements);
    });
  }

  /** All rows of a query. */
  all<T extends object = Row>(sql: string, params: readonly SqlValue[] = []): T[] {
    return this.#prepare(sql).all(...params) as T[];
  }

  /** The first row of a query. */
  get<T extends object = Row>(sql: string, params: readonly SqlValue[] = []): T | undefined {
    return this.#prepare(sql).get(...params) as T | undefined;
  }

  /** Rows one by one, for results too large to hold. Other statements may run meanwhile. */
  *iterate<T extends object = Row>(
    sql: string,
    params: readonly SqlValue[] = [],
  ): IterableIterator<T> {
    yield* this.#reader.prepare(sql).iterate(...params) as IterableIterator<T>;
  }

  /** Commits what was given, then closes both connections. Safe to repeat. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    if (!this.#failure) {
      this.#flush();
      this.#worker.ref();
      const exited = new Promise((resolve) => this.#worker.once("exit", resolve));
      this.#worker.postMessage({ close: true } satisfies WriterMessage);
      await exited;
    }
    this.#failure ??= new Error("the database is closed");
    this.#statements.clear();
    this.#reader.close();
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (!statement) {
      if (this.#statements.size >= 500) this.#statements.clear();
      statement = this.#reader.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #flush(): void {
    if (this.#outbox.length === 0) return;
    const units = this.#outbox;
    this.#outbox = [];
    this.#worker.ref();
    const firstId = this.#lastId - units.length + 1;
    try {
      this.#worker.postMessage(this.#packer.pack(firstId, units) satisfies WriterMessage);
    } catch (error) {
      // A value that cannot be sent to another thread; nothing of this message has arrived.
      this.#packer.forget();
      for (let id = firstId; id <= this.#lastId; id++) {
        this.#waiting.get(id)?.reject(error as Error);
        this.#waiting.delete(id);
      }
    }
  }

  #settle({ firstId, flat, errors }: PackedReplies): void {
    let id = firstId;
    let failed = 0;
    for (let at = 0; at < flat.length; id++) {
      const verdict = flat[at] as number;
      const end = at + 2 + (flat[at + 1] as number);
      const waiter = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (verdict < 0) {
        const error = errors[failed++]!;
        waiter?.reject(Object.assign(new Error(error.message), error));
      } else waiter?.resolve({ ok: verdict === 1, changes: flat.slice(at + 2, end) });
      at = end;
    }
    if (this.#waiting.size === 0) this.#worker.unref();
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const waiter of this.#waiting.values()) waiter.reject(this.#failure);
    this.#waiting.clear();
  }
}

const open = new Map<string, { users: number; database: Promise<Database> }>();

/** One connection pair a file and process: services of one node share it. Pair each call with `releaseDatabase`. */
export async function acquireDatabase(path: string): Promise<Database> {
  const entry = open.get(path) ?? { users: 0, database: Database.open(path) };
  entry.users += 1;
  open.set(path, entry);
  try {
    return await entry.database;
  } catch (error) {
    open.delete(path);
    throw error;
  }
}

export async function releaseDatabase(path: string): Promise<void> {
  const entry = open.get(path);
  if (!entry) return;
  entry.users -= 1;
  if (entry.users > 0) return;
  open.delete(path);
  await (await entry.database).close();
}

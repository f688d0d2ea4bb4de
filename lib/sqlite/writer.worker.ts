// The one writer of a SQLite file. Every batch that arrives while a commit runs goes into the next one.
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { SqlValue, Unit, UnitResult, WriterMessage, WriterReply } from "./writer-messages.ts";

const UNITS_PER_COMMIT_MAX = 5_000;
const port = parentPort!;
const db = new DatabaseSync((workerData as { path: string }).path);
db.exec(
  "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 2000",
);
const statements = new Map<string, StatementSync>();

function prepare(sql: string): StatementSync {
  let statement = statements.get(sql);
  if (!statement) {
    if (statements.size >= 500) statements.clear();
    statement = db.prepare(sql);
    statements.set(sql, statement);
  }
  return statement;
}

/** Runs one unit inside the open transaction; a savepoint is only needed where more than one statement can be undone. */
function runUnit(unit: Unit): UnitResult {
  const result: UnitResult = { ok: true, changes: [], lastInsertRowid: 0 };
  const guarded = unit.length > 1 || (unit[0]?.mustChange ?? 0) > 1;
  if (guarded) db.exec("SAVEPOINT unit");
  try {
    for (const { sql, params, mustChange } of unit) {
      const { changes, lastInsertRowid } = prepare(sql).run(...((params ?? []) as SqlValue[]));
      result.changes.push(Number(changes));
      result.lastInsertRowid = Number(lastInsertRowid);
      if (mustChange !== undefined && Number(changes) < mustChange) {
        result.ok = false;
        break;
      }
    }
  } catch (error) {
    if (guarded) db.exec("ROLLBACK TO unit; RELEASE unit");
    throw error;
  }
  if (guarded) db.exec(result.ok ? "RELEASE unit" : "ROLLBACK TO unit; RELEASE unit");
  return result;
}

const plain = (error: unknown) => {
  const { message, code, errcode } = error as Error & { code?: string; errcode?: number };
  return { message, code, errcode };
};

function commit(batch: { id: number; unit: Unit }[]): void {
  let replies: WriterReply[] = [];
  try {
    db.exec("BEGIN IMMEDIATE");
    for (const { id, unit } of batch) {
      try {
        replies.push({ id, result: runUnit(unit) });
      } catch (error) {
        replies.push({ id, error: plain(error) });
      }
    }
    db.exec("COMMIT");
  } catch (error) {
    // Nothing of the batch is on disk: no unit of it may be told otherwise.
    try {
      db.exec("ROLLBACK");
    } catch {
      // SQLite has rolled back by itself.
    }
    replies = batch.map(({ id }) => ({ id, error: plain(error) }));
  }
  port.postMessage(replies);
}

port.on("message", (first: WriterMessage) => {
  const batch: { id: number; unit: Unit }[] = [];
  let closing = false;
  for (
    let message: WriterMessage | undefined = first;
    message;
    message = receiveMessageOnPort(port)?.message
  ) {
    if ("close" in message) {
      closing = true;
      break;
    }
    batch.push(...message.units);
    if (batch.length >= UNITS_PER_COMMIT_MAX) break;
  }
  if (batch.length > 0) commit(batch);
  if (closing) {
    db.close();
    port.close();
  }
});
port.postMessage("ready");

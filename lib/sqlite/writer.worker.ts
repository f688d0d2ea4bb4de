// The one writer of a SQLite file. Every batch that arrives while a commit runs goes into the next one.
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type {
  PackedReplies,
  PackedUnits,
  SqlValue,
  UnitResult,
  WriterMessage,
} from "./writer-messages.ts";

const UNITS_PER_COMMIT_MAX = 5_000;
const port = parentPort!;
const db = new DatabaseSync((workerData as { path: string }).path);
db.exec(
  "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 2000",
);

/** A statement is prepared when it is first run: an earlier one of the same message may create its table. */
interface Known {
  sql: string;
  prepared?: StatementSync;
}

interface Step {
  statement: Known;
  params: SqlValue[];
  mustChange: number;
}

let known: Known[] = [];

function unpack({ texts, anew, flat }: PackedUnits): Step[][] {
  if (anew) known = [];
  for (const sql of texts) known.push({ sql });
  const units: Step[][] = [];
  for (let at = 0; at < flat.length; ) {
    const steps: Step[] = [];
    for (let left = flat[at++] as number; left > 0; left--) {
      const statement = known[flat[at] as number]!;
      const mustChange = flat[at + 1] as number;
      const end = at + 3 + (flat[at + 2] as number);
      steps.push({ statement, mustChange, params: flat.slice(at + 3, end) });
      at = end;
    }
    units.push(steps);
  }
  return units;
}

/** A unit must be undone that had no savepoint. */
class MustUndo extends Error {}

function runSteps(unit: readonly Step[], isGuarded: boolean): UnitResult {
  const result: UnitResult = { ok: true, changes: [] };
  for (const { statement, params, mustChange } of unit) {
    let changed: number;
    try {
      statement.prepared ??= db.prepare(statement.sql);
      changed = Number(statement.prepared.run(...params).changes);
    } catch (error) {
      // Of a statement that fails SQLite itself leaves nothing behind.
      if (!isGuarded && result.changes.length > 0) throw new MustUndo();
      throw error;
    }
    result.changes.push(changed);
    if (changed < mustChange) {
      if (!isGuarded && (changed > 0 || result.changes.length > 1)) throw new MustUndo();
      result.ok = false;
      return result;
    }
  }
  return result;
}

function runGuarded(unit: readonly Step[]): UnitResult {
  if (unit.length < 2 && (unit[0]?.mustChange ?? 0) < 2) return runSteps(unit, true);
  db.exec("SAVEPOINT unit");
  try {
    const result = runSteps(unit, true);
    db.exec(result.ok ? "RELEASE unit" : "ROLLBACK TO unit; RELEASE unit");
    return result;
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK TO unit; RELEASE unit");
    throw error;
  }
}

const plain = (error: unknown) => {
  const { message, code, errcode } = error as Error & { code?: string; errcode?: number };
  return { message, code, errcode };
};

function rollBack(): void {
  try {
    if (db.isTransaction) db.exec("ROLLBACK");
  } catch {
    // SQLite has rolled back by itself.
  }
}

/** Runs all units in one transaction. */
function commitAll(batch: readonly Step[][], run: (unit: readonly Step[]) => UnitResult) {
  const flat: number[] = [];
  const errors: PackedReplies["errors"] = [];
  db.exec("BEGIN IMMEDIATE");
  for (const unit of batch) {
    try {
      const { ok, changes } = run(unit);
      flat.push(ok ? 1 : 0, changes.length);
      for (const rows of changes) flat.push(rows);
    } catch (error) {
      // A full disk and the like end the whole transaction: what follows must not be committed one by one.
      if (error instanceof MustUndo || !db.isTransaction) throw error;
      flat.push(-1, 0);
      errors.push(plain(error));
    }
  }
  db.exec("COMMIT");
  return { flat, errors };
}

/** Savepoints cost more than most statements, and few units are undone: first without, then, if one must be, with them. */
function commit(batch: readonly Step[][]): Omit<PackedReplies, "firstId"> {
  try {
    try {
      return commitAll(batch, (unit) => runSteps(unit, false));
    } catch (error) {
      if (!(error instanceof MustUndo)) throw error;
      rollBack();
      return commitAll(batch, runGuarded);
    }
  } catch (error) {
    // Nothing of the batch is on disk: no unit of it may be told otherwise.
    rollBack();
    return { flat: batch.flatMap(() => [-1, 0]), errors: batch.map(() => plain(error)) };
  }
}

port.on("message", (first: WriterMessage) => {
  const batch: Step[][] = [];
  let firstId = 0;
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
    firstId ||= message.firstId;
    for (const unit of unpack(message)) batch.push(unit);
    if (batch.length >= UNITS_PER_COMMIT_MAX) break;
  }
  if (batch.length > 0) port.postMessage({ firstId, ...commit(batch) } satisfies PackedReplies);
  if (closing) {
    db.close();
    port.close();
  }
});
port.postMessage("ready");

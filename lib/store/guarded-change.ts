import { AppError } from "../errors.ts";
import {
  type Doc,
  limits,
  type Patch,
  type PatchFrom,
  type RecordMeta,
  type StoredRecord,
} from "./record-store.ts";

/** Bounds of one call and the change of a record guarded by its version: the same rules for every engine. */

/** @throws INVALID_INPUT */
export function refuseTooMany(records: number): void {
  if (records > limits.insertManyMax)
    throw new AppError("INVALID_INPUT", {
      reason: `at most ${limits.insertManyMax} records at a time`,
    });
}

/**
 * The ids of a removal, each once.
 * @throws INVALID_INPUT
 */
export function idsToRemove(ids: readonly string[]): string[] {
  if (ids.length > limits.removeManyMax)
    throw new AppError("INVALID_INPUT", {
      reason: `ids: at most ${limits.removeManyMax} at a time`,
    });
  return [...new Set(ids)];
}

export interface GuardedChange<D extends Doc, R extends Pick<RecordMeta, "version">> {
  /** How people call the record, for messages. */
  what: string;
  expectedVersion: number | undefined;
  patch: Patch | PatchFrom<D>;
  /** Writers elsewhere may come first; more often than this in a row they do not. */
  triesMax: number;
  read(): R | undefined | Promise<R | undefined>;
  /** May refuse the row by throwing. */
  recordOf(row: R): StoredRecord<D>;
  /** Stores if the row still is as it was read; undefined: it is not. */
  save(row: R, current: StoredRecord<D>, set: Patch): Promise<StoredRecord<D> | undefined>;
}

/**
 * Reads, applies the patch and stores, again and again while somebody else comes first.
 * @throws NOT_FOUND, VERSION_CONFLICT, CONFLICT
 */
export async function changeGuarded<D extends Doc, R extends Pick<RecordMeta, "version">>(
  change: GuardedChange<D, R>,
): Promise<StoredRecord<D>> {
  const { what, expectedVersion: expected, patch } = change;
  for (let tries = 0; tries < change.triesMax; tries += 1) {
    const row = await change.read();
    if (!row) throw new AppError("NOT_FOUND", { what });
    if (expected !== undefined && row.version !== expected)
      throw new AppError("VERSION_CONFLICT", { what, actual: row.version, expected });
    const current = change.recordOf(row);
    const changes = typeof patch === "function" ? patch(current) : patch;
    if (changes === undefined) return current;
    const set = Object.fromEntries(
      Object.entries(changes).filter(([, value]) => value !== undefined),
    );
    const saved = await change.save(row, current, set);
    if (saved) return saved;
  }
  throw new AppError("CONFLICT", { reason: `${what} is being changed by too many at once` });
}

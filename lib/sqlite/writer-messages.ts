import type { SQLInputValue } from "node:sqlite";

// What goes between a database and its writer thread.

export type SqlValue = SQLInputValue;

/** One statement of a unit of work. */
export interface Statement {
  sql: string;
  params?: readonly SqlValue[];
  /**
   * The guard of a compare-and-set: when the statement changes fewer rows than this, the whole unit is
   * undone and answered as refused; other units are not touched.
   */
  mustChange?: number;
}

export type Unit = readonly Statement[];
export interface UnitResult {
  /** False: a guard refused the unit and nothing of it was written. */
  ok: boolean;
  /** Rows that each statement changed, up to the one that was refused. */
  changes: number[];
  lastInsertRowid: number;
}
export type WriterMessage = { units: { id: number; unit: Unit }[] } | { close: true };
export type WriterReply =
  | { id: number; result: UnitResult }
  | { id: number; error: { message: string; code?: string; errcode?: number } };

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
}

/**
 * Units as one flat list, since copying many small objects between threads costs more than writing them: for each unit
 * the number of its statements; for each statement its place among the texts, its guard or -1, the number of its
 * parameters, the parameters.
 */
export interface PackedUnits {
  /** Ids of units follow each other. */
  firstId: number;
  /** Texts that come after those known so far. */
  texts: string[];
  /** The texts known so far are to be forgotten. */
  anew: boolean;
  flat: SqlValue[];
}

export type WriterMessage = PackedUnits | { close: true };

/** For each unit 1, 0 (refused) or -1 (failed: the next of the errors), the number of its `changes`, the changes. */
export interface PackedReplies {
  firstId: number;
  flat: number[];
  errors: { message: string; code?: string; errcode?: number }[];
}

/** Texts that both sides remember at most, give or take one message. */
const TEXTS_MAX = 500;

/** Packs units, and sends each text of a statement to the other side only once. */
export class UnitPacker {
  readonly #places = new Map<string, number>();
  #isUnsure = false;

  /** The last message did not get through: nobody knows which texts the other side has. */
  forget(): void {
    this.#isUnsure = true;
  }

  pack(firstId: number, units: readonly Unit[]): PackedUnits {
    const anew = this.#isUnsure || this.#places.size >= TEXTS_MAX;
    this.#isUnsure = false;
    if (anew) this.#places.clear();
    const texts: string[] = [];
    const flat: SqlValue[] = [];
    for (const unit of units) {
      flat.push(unit.length);
      for (const { sql, params = [], mustChange = -1 } of unit) {
        let place = this.#places.get(sql);
        if (place === undefined) {
          place = this.#places.size;
          this.#places.set(sql, place);
          texts.push(sql);
        }
        flat.push(place, mustChange, params.length);
        for (const param of params) flat.push(param);
      }
    }
    return { firstId, texts, anew, flat };
  }
}

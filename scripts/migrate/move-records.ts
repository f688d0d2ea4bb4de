import { asAppError } from "../../lib/errors.ts";
import type { RecordStore, StoredRecord } from "../../lib/store/record-store.ts";
import { Comparison } from "./comparison.ts";
import { canonical } from "./likeness.plan.ts";
import { moveLimits } from "./limits.ts";
import { batches, type MoveWork } from "./move-work.ts";
import type { Compared } from "./summary.plan.ts";

/** Puts into the target what it has not. What it has under the same id stays, unless `replaces`. */
export async function carryRecords(
  source: RecordStore,
  target: RecordStore,
  { signal, show, replaces }: MoveWork & { replaces: boolean },
): Promise<void> {
  const { name } = source.collection;
  const total = await source.count();
  let done = 0;
  for await (const records of batches(source.stream(), moveLimits.recordsAtOnce)) {
    signal.throwIfAborted();
    const there = new Map(
      (await target.getMany(records.map(({ id }) => id))).map((record) => [record.id, record]),
    );
    const missing = records.filter((record) => {
      const other = there.get(record.id);
      return !other || (replaces && canonical(other) !== canonical(record));
    });
    if (missing.length > 0) await restoreWhatGoes(target, missing);
    done += records.length;
    show(name, done, total);
  }
}

/** One that the target cannot hold keeps no other out; the comparison names it. */
async function restoreWhatGoes(
  target: RecordStore,
  records: readonly StoredRecord[],
): Promise<void> {
  try {
    await target.restore(records);
  } catch (error) {
    const type = asAppError(error)?.type;
    if (type !== "PAYLOAD_TOO_LARGE" && type !== "INVALID_INPUT") throw error;
    const [first, ...others] = records;
    if (others.length === 0) return;
    await restoreWhatGoes(target, [first!]);
    await restoreWhatGoes(target, others);
  }
}

export async function compareRecords(
  source: RecordStore,
  target: RecordStore,
  { signal, show }: MoveWork,
): Promise<Compared> {
  const { name } = source.collection;
  const comparison = new Comparison(name);
  const total = await source.count();
  for await (const records of batches(source.stream(), moveLimits.recordsAtOnce)) {
    signal.throwIfAborted();
    const there = new Map(
      (await target.getMany(records.map(({ id }) => id))).map((record) => [record.id, record]),
    );
    for (const record of records)
      comparison.add(`${name} ${record.id}`, record, there.get(record.id));
    show(`comparing ${name}`, comparison.count, total);
  }
  return comparison.result(await target.count());
}

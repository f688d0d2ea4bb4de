import { randomUUID } from "node:crypto";
import { leadTarget } from "./lead-target.ts";
import { carryJobs, carryPausedQueues, compareJobs, comparePausedQueues } from "./move-jobs.ts";
import { moveBucket } from "./move-objects.ts";
import { carryRecords, compareRecords } from "./move-records.ts";
import { carryTokens, compareTokens } from "./move-tokens.ts";
import type { MoveWork } from "./move-work.ts";
import { ProgressFile } from "./progress.ts";
import type { Source } from "./source.ts";
import { type Compared, isEqual } from "./summary.plan.ts";
import type { Target } from "./target.ts";

export interface MoveOptions {
  /** Compares only. */
  verify: boolean;
  /** Records of the target that differ are replaced. */
  replaces: boolean;
  show: MoveWork["show"];
  say(text: string): void;
  /** Ends the work in order. */
  stop: AbortSignal;
}

/**
 * Carries everything and compares it, or compares only. May end at any moment and be run again: what is in the target
 * already is looked at and passed over. What was found equal once is compared only, since the target goes its own way
 * from then on.
 */
export async function move(
  source: Source,
  target: Target,
  options: MoveOptions,
): Promise<Compared[]> {
  if (options.verify)
    return [
      ...(await compareData(source, target, workOf(options))),
      ...(await objects(source, target, options)),
    ];
  const file = ProgressFile.open(source.dir, {
    format: 1,
    target: target.name,
    ...(target.objectsName === undefined ? {} : { objectsTarget: target.objectsName }),
    startedAt: new Date().toISOString(),
    finished: {},
    holder: `migrate#${randomUUID()}`,
    buckets: {},
  });
  await file.save();
  const { finished } = file.progress;
  for (const at of new Set(Object.values(finished)))
    options.say(
      `Carried and found equal at ${at}: compared only. To carry what is missing since, remove ${file.path}`,
    );
  if (!finished.data) await carryData(source, target, file, options);
  const data = await compareData(source, target, workOf(options));
  const stored = await objects(source, target, options, finished.objects ? undefined : file);
  if (data.every(isEqual)) finished.data ??= new Date().toISOString();
  if (target.objects && stored.every(isEqual)) finished.objects ??= new Date().toISOString();
  await file.save();
  return [...data, ...stored];
}

const workOf = ({ stop, show }: MoveOptions): MoveWork => ({ signal: stop, show });

async function carryData(
  source: Source,
  target: Target,
  file: ProgressFile,
  options: MoveOptions,
): Promise<void> {
  const deposed = new AbortController();
  const signal = AbortSignal.any([options.stop, deposed.signal]);
  const work = { signal, show: options.show };
  const { progress } = file;
  const leadership = await leadTarget(target.jobs, progress.holder, {
    lost: (why) => deposed.abort(why),
    waiting: (who) =>
      options.say(`Looking whether ${who} still leads in the target; this takes a few seconds`),
  });
  try {
    for (const [n, store] of source.records.entries())
      await carryRecords(store, target.records[n]!, { ...work, replaces: options.replaces });
    await carryTokens(source.tokens, target.tokens, work);
    if (progress.placeOffset === undefined) {
      progress.placeOffset = await target.jobs.lastPlace();
      await file.save();
    }
    const { term } = leadership;
    await carryJobs(source.jobs, target.jobs, { ...work, term, offset: progress.placeOffset });
    await carryPausedQueues(source.jobs, target.jobs);
  } finally {
    // The lease ends by itself where the database does not answer.
    await leadership.resign().catch(() => undefined);
  }
}

async function compareData(source: Source, target: Target, work: MoveWork): Promise<Compared[]> {
  const rows: Compared[] = [];
  for (const [n, store] of source.records.entries())
    rows.push(await compareRecords(store, target.records[n]!, work));
  rows.push(await compareTokens(source.tokens, target.tokens, work));
  rows.push(await compareJobs(source.jobs, target.jobs, work));
  rows.push(await comparePausedQueues(source.jobs, target.jobs));
  return rows;
}

/** @param file absent: they are compared only, every byte. */
async function objects(
  source: Source,
  target: Target,
  options: MoveOptions,
  file?: ProgressFile,
): Promise<Compared[]> {
  const rows: Compared[] = [];
  if (!target.objects) return rows;
  const mode = file ? "carry" : "compare";
  for (const { bucket, objects: total } of source.objects.sizes())
    rows.push(
      await moveBucket(source.objects, target.objects, bucket, {
        ...workOf(options),
        mode,
        total,
        ...(file ? { file } : {}),
      }),
    );
  return rows;
}

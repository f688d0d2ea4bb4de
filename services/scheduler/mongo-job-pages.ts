import type { FilterQuery } from "mongoose";
import type { MongoJobLimits } from "./config.ts";
import type { JobQuery } from "./job-store.ts";
import type { JobDocument, JobModels } from "./mongo-job-models.ts";

interface Mark {
  place: number;
  id: string;
}

const markOf = (after: string): Mark | undefined => {
  const [, place, id] = /^([\da-z]{1,11})\.(.+)$/s.exec(after) ?? [];
  return place && id ? { place: Number.parseInt(place, 36), id } : undefined;
};

/**
 * One page, newest first. It goes back through ranges of places, each larger than the one before: a server that does
 * not read an index in order, as FerretDB, then sorts a range and not the whole table, and a filter that few jobs pass
 * costs a few more questions.
 */
export async function pageOf(
  { jobs }: Pick<JobModels, "jobs">,
  { after, limit, ...filters }: JobQuery,
  newestAtLeast: number,
  { rangeMin }: MongoJobLimits,
): Promise<{ docs: JobDocument[]; next?: string }> {
  const mark = after === undefined ? undefined : markOf(after);
  if (after !== undefined && !mark) return { docs: [] };
  const wanted = Object.fromEntries(
    Object.entries(filters).filter(([, value]) => value !== undefined),
  ) as FilterQuery<JobDocument>;
  const docs: JobDocument[] = [];
  let top = mark ? mark.place : await newestPlace(jobs, newestAtLeast);
  // Two leaders may have given one place: behind the mark comes the rest of its own place.
  const behind = mark && {
    $or: [{ place: { $lt: mark.place } }, { _id: { $lt: mark.id } }],
  };
  for (let size = Math.max(rangeMin, 4 * limit); top > 0; size *= 4) {
    const place = { $gt: top - size, $lte: top };
    docs.push(
      ...(await jobs
        .find({ ...wanted, place, ...(top === mark?.place ? behind : {}) })
        .sort({ place: -1, _id: -1 })
        .limit(limit - docs.length)
        .lean<JobDocument[]>()),
    );
    if (docs.length === limit) break;
    top -= size;
  }
  const last = docs.at(-1);
  const full = last !== undefined && docs.length === limit;
  return { docs, ...(full ? { next: `${last.place.toString(36)}.${last._id}` } : {}) };
}

/** The place of the newest job, if it is above this one. */
export async function newestPlace(jobs: JobModels["jobs"], atLeast: number): Promise<number> {
  const newest = await jobs
    .findOne({ place: { $gt: atLeast } }, { place: 1 })
    .sort({ place: -1 })
    .lean<Pick<JobDocument, "place">>();
  return newest?.place ?? atLeast;
}

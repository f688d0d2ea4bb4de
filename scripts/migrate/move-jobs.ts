import type { JobStore } from "../../services/scheduler/job-store.ts";
import type { MongoJobStore } from "../../services/scheduler/mongo-job-store.ts";
import type { MovingJob } from "../../services/scheduler/moving-job.ts";
import type { SqliteJobStore } from "../../services/scheduler/sqlite-job-store.ts";
import { Comparison } from "./comparison.ts";
import { moveLimits } from "./limits.ts";
import type { MoveWork } from "./move-work.ts";
import type { Compared } from "./summary.plan.ts";

/** How many jobs a store holds, in whatever state. */
export async function jobTotal(store: Pick<JobStore, "counts">): Promise<number> {
  const queues = Object.values(await store.counts());
  return queues.flatMap((states) => Object.values(states)).reduce((sum, n) => sum + n, 0);
}

/**
 * Carries jobs, oldest first; each comes with its log and callbacks in one step. The caller leads in the target.
 * @param offset added to each place: the same after every interruption.
 */
export async function carryJobs(
  source: SqliteJobStore,
  target: MongoJobStore,
  { signal, show, term, offset }: MoveWork & { term: number; offset: number },
): Promise<void> {
  const total = await jobTotal(source);
  let done = 0;
  for await (const jobs of source.moving(moveLimits.jobsAtOnce)) {
    signal.throwIfAborted();
    const placed = jobs.map((one) => ({ ...one, place: one.place + offset }));
    await target.takeOverJobs(placed, term);
    done += jobs.length;
    show("jobs", done, total);
  }
}

/** State, log and callbacks of each job, and that lists show them in the same order. */
export async function compareJobs(
  source: SqliteJobStore,
  target: MongoJobStore,
  { signal, show }: MoveWork,
): Promise<Compared> {
  const comparison = new Comparison("jobs");
  const total = await jobTotal(source);
  let newest = 0;
  for await (const jobs of source.moving(moveLimits.jobsAtOnce)) {
    signal.throwIfAborted();
    const found = new Map<string, MovingJob>();
    for (const one of await target.movedJobs(jobs.map(({ job }) => job.spec.id)))
      found.set(one.job.spec.id, one);
    for (const { job, log, outbox } of jobs) {
      const { id } = job.spec;
      const there = found.get(id);
      comparison.add(`job ${id}`, { ...job, log, outbox }, there && likeSource(there));
      if (!there) await tellWhy(comparison, target, job);
      else if (there.place <= newest) comparison.differs(`job ${id} has another place in lists`);
      newest = Math.max(newest, there?.place ?? 0);
    }
    show("comparing jobs", comparison.count, total);
  }
  return comparison.result(await jobTotal(target));
}

const likeSource = ({ job, log, outbox }: MovingJob) => ({ ...job, log, outbox });

async function tellWhy(
  comparison: Comparison,
  target: MongoJobStore,
  { spec: { id, owner, idempotencyKey } }: MovingJob["job"],
): Promise<void> {
  if (idempotencyKey === undefined) return;
  const other = await target.findByIdempotencyKey(owner, idempotencyKey);
  if (other)
    comparison.differs(
      `job ${id} is kept out by job ${other.spec.id}, which has its idempotency key`,
    );
}

export async function carryPausedQueues(
  source: Pick<JobStore, "pausedQueues">,
  target: Pick<JobStore, "setQueuePaused">,
): Promise<void> {
  for (const queue of await source.pausedQueues()) await target.setQueuePaused(queue, true);
}

export async function comparePausedQueues(
  source: Pick<JobStore, "pausedQueues">,
  target: Pick<JobStore, "pausedQueues">,
): Promise<Compared> {
  const comparison = new Comparison("paused queues");
  const paused = await target.pausedQueues();
  for (const queue of await source.pausedQueues())
    comparison.add(
      `the pause of queue ${queue}`,
      { queue },
      paused.includes(queue) ? { queue } : undefined,
    );
  return comparison.result(paused.length);
}

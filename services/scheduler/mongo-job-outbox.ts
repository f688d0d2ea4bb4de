import type { MongoJobLimits } from "./config.ts";
import { GroupCommit } from "./group-commit.ts";
import type { OutboxEntry } from "./job-store.ts";
import { entryOf } from "./mongo-job-document.ts";
import type { JobDocument, JobModels } from "./mongo-job-models.ts";

/** Callbacks that wait in the documents of their jobs, where they were written with the change that caused them. */
export class MongoJobOutbox {
  readonly #models: JobModels;
  readonly #done: GroupCommit<string, void>;

  constructor(models: JobModels, { groupMax }: MongoJobLimits) {
    this.#models = models;
    this.#done = new GroupCommit<string, void>({
      write: async (ids) => {
        await this.#remove(ids);
        return ids.map(() => ({ value: undefined }));
      },
      keyOf: (id) => id,
      groupMax,
      underWayMax: 1,
    });
  }

  async pending(limit: number): Promise<OutboxEntry[]> {
    const docs = await this.#models.jobs
      .find({ outboxAt: { $exists: true } }, { outbox: 1 })
      .sort({ outboxAt: 1 })
      .limit(limit)
      .lean<Pick<JobDocument, "_id" | "outbox">[]>();
    return docs
      .flatMap(({ _id, outbox = [] }) => outbox.map((entry) => entryOf(_id, entry)))
      .slice(0, limit);
  }

  async done(ids: readonly string[]): Promise<void> {
    await Promise.all(ids.map((id) => this.#done.add(id)));
  }

  async #remove(ids: readonly string[]): Promise<void> {
    const some = { outboxAt: { $exists: true }, "outbox.id": { $in: ids } };
    // Nearly always a job has one callback: then it goes whole, in one command.
    const whole = await this.#models.jobs.updateMany(
      { ...some, outbox: { $size: 1 } },
      { $unset: { outbox: 1, outboxAt: 1 } },
    );
    if (whole.modifiedCount === ids.length) return;
    await this.#models.jobs.updateMany(some, { $pull: { outbox: { id: { $in: ids } } } });
    await this.#models.jobs.updateMany(
      { outboxAt: { $exists: true }, outbox: { $size: 0 } },
      { $unset: { outbox: 1, outboxAt: 1 } },
    );
  }
}

import type { Job } from "../../services/scheduler/job.types.ts";
import type { ChangeResult, JobChange, JobStore } from "../../services/scheduler/job-store.ts";
import { MemoryJobStore } from "../../services/scheduler/memory-job-store.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

interface Write {
  commit: () => Promise<void>;
  fail: (error: Error) => void;
}

/**
 * The disk under the leader: writes become durable a little later, in the order in which they were given. A crash
 * loses those that were under way, or makes the first few of them durable without anybody hearing of it.
 */
export class SimulatedDisk {
  readonly #memory = new MemoryJobStore();
  readonly #world: World;
  readonly #random: Random;
  readonly #committed: (before: Job | undefined, after: Job) => void;
  #underWay: Write[] = [];
  /** While the disk is bad, writes fail; some of them have been done all the same. */
  isBad = false;

  constructor(world: World, committed: (before: Job | undefined, after: Job) => void) {
    this.#world = world;
    this.#random = world.random("disk");
    this.#committed = committed;
  }

  /** The store as a new leader opens it. */
  open(): JobStore {
    const memory = this.#memory;
    const later = <T>(run: () => Promise<T>) => this.#later(run);
    return {
      change: (change: JobChange) => later(() => this.#change(change)),
      get: (id) => memory.get(id),
      findByIdempotencyKey: (owner, key) => memory.findByIdempotencyKey(owner, key),
      list: (query) => memory.list(query),
      counts: () => memory.counts(),
      active: () => memory.active(),
      leadership: () => memory.leadership(),
      takeOver: (seen, holder) => later(() => memory.takeOver(seen, holder)),
      renew: (term) => later(() => memory.renew(term)),
      resign: (term) => later(() => memory.resign(term)),
      strays: (term) => memory.strays(term),
      appendLog: (id, lines) => memory.appendLog(id, lines),
      readLog: (id, page) => memory.readLog(id, page),
      outboxPending: (limit) => memory.outboxPending(limit),
      outboxDone: (ids) => later(() => memory.outboxDone(ids)),
      setQueuePaused: (queue, paused) => later(() => memory.setQueuePaused(queue, paused)),
      pausedQueues: () => memory.pausedQueues(),
      close: () => memory.close(),
    };
  }

  /** What is durable, for the checkers. */
  read(id: string): Promise<Job | undefined> {
    return this.#memory.get(id);
  }
  active(): AsyncIterable<Job> {
    return this.#memory.active();
  }
  outboxSize(): Promise<number> {
    return this.#memory.outboxPending(10).then((entries) => entries.length);
  }

  /** Changes the disk behind the leader's back; only broken rules do that. */
  overwrite(change: JobChange): Promise<ChangeResult> {
    return this.#change(change);
  }

  /** The leader's process dies. */
  async crash(): Promise<void> {
    const survivors = this.#random.int(0, this.#underWay.length);
    for (const write of this.#underWay.splice(0).slice(0, survivors)) await write.commit();
  }

  async #change(change: JobChange): Promise<ChangeResult> {
    const before = await this.#memory.get(change.next.spec.id);
    const result = await this.#memory.change(change);
    if (result.stored) this.#committed(before, change.next);
    return result;
  }

  #later<T>(run: () => Promise<T>): Promise<T> {
    const promise = Promise.withResolvers<T>();
    const isLost = this.isBad && this.#random.chance(0.5);
    const isUnknown = this.isBad && this.#random.chance(0.3);
    const write: Write = {
      async commit() {
        const answer = await run();
        if (isUnknown) promise.reject(new Error("the disk reported an error"));
        else promise.resolve(answer);
      },
      fail: promise.reject,
    };
    this.#underWay.push(write);
    this.#world.after(this.#random.int(1, 8), () => {
      // Earlier writes come first, however long they were to take.
      const place = this.#underWay.indexOf(write);
      if (place < 0) return false;
      const due = this.#underWay.splice(0, place + 1);
      void this.#commit(due, isLost ? write : undefined);
      return true;
    });
    return promise.promise;
  }

  async #commit(due: readonly Write[], lost: Write | undefined): Promise<void> {
    for (const write of due) {
      if (write === lost) write.fail(new Error("the disk did not take it"));
      else await write.commit();
    }
  }
}

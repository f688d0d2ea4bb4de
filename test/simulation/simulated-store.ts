import type { Job } from "../../services/scheduler/job.types.ts";
import type { ChangeResult, JobChange, JobStore } from "../../services/scheduler/job-store.ts";
import { MemoryJobStore } from "../../services/scheduler/memory-job-store.ts";
import type { Party } from "./network.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

export interface StoreTraits {
  /** It refuses late insertions of an earlier leader; otherwise it takes them, as a store without transactions may. */
  fencesInserts: boolean;
  /** Share of writes that take up to `slowMsMax`: they overtake each other, and arrive after a later leader's. */
  slow: number;
  slowMsMax: number;
  /** Share of writes whose answer is lost. */
  lostAnswers: number;
}

export interface StoreWatch {
  committed(before: Job | undefined, after: Job, writer: string): void;
  tookOver(term: number, holder: string): void;
}

/** A client of the store that gets no answer gives up after this time; what it has sent may still be carried out. */
const answerMsMax = 5_000;

/**
 * The database behind the schedulers, a server of its own: what was sent to it is carried out, whatever becomes of the
 * sender, and an answer that was lost says nothing.
 */
export class SimulatedStore {
  readonly #memory: MemoryJobStore;
  readonly #world: World;
  readonly #random: Random;
  readonly #watch: StoreWatch;
  readonly #cut = new Set<string>();
  traits: StoreTraits;
  /** While it is bad, writes fail; some of them have been carried out all the same. */
  isBad = false;

  constructor(world: World, traits: StoreTraits, watch: StoreWatch) {
    this.#memory = new MemoryJobStore(traits);
    this.#world = world;
    this.#random = world.random("store");
    this.#watch = watch;
    this.traits = traits;
  }

  /** The store as this run of a process reaches it. */
  open(process: Party, run: string): JobStore {
    const memory = this.#memory;
    const { incarnation } = process;
    const write = <T>(act: () => Promise<T>) => this.#write(process, incarnation, act);
    const read = <T>(act: () => Promise<T>) =>
      this.#cut.has(process.name) ? Promise.reject(new Error("the store is out of reach")) : act();
    return {
      change: (change) => write(() => this.#change(change, run)),
      get: (id) => read(() => memory.get(id)),
      findByIdempotencyKey: (owner, key) => read(() => memory.findByIdempotencyKey(owner, key)),
      list: (query) => read(() => memory.list(query)),
      counts: () => read(() => memory.counts()),
      active: () => memory.active(),
      leadership: () => read(() => memory.leadership()),
      takeOver: (seen, holder) =>
        write(async () => {
          const taken = await memory.takeOver(seen, holder);
          if (taken) this.#watch.tookOver(taken.term, holder);
          return taken;
        }),
      renew: (term) => write(() => memory.renew(term)),
      resign: (term) => write(() => memory.resign(term)),
      strays: (term) => write(() => memory.strays(term)),
      appendLog: (id, lines) => memory.appendLog(id, lines),
      readLog: (id, page) => memory.readLog(id, page),
      outboxPending: (limit) => read(() => memory.outboxPending(limit)),
      outboxDone: (ids) => write(() => memory.outboxDone(ids)),
      setQueuePaused: (queue, paused) => write(() => memory.setQueuePaused(queue, paused)),
      pausedQueues: () => read(() => memory.pausedQueues()),
      close: () => memory.close(),
    };
  }

  /** Cuts a process off from the store, or joins it again. */
  cut(name: string, isCut: boolean): void {
    if (isCut) this.#cut.add(name);
    else this.#cut.delete(name);
  }
  isCutOff(name: string): boolean {
    return this.#cut.has(name);
  }
  /** Everything works from now on; what is under way stays slow. */
  repair(): void {
    this.isBad = false;
    this.#cut.clear();
    this.traits = { ...this.traits, slow: 0, lostAnswers: 0 };
  }

  /** What is durable, for the checkers. */
  read(id: string): Promise<Job | undefined> {
    return this.#memory.get(id);
  }
  async all(): Promise<Job[]> {
    return (await this.#memory.list({ limit: 100_000 })).jobs;
  }
  active(): AsyncIterable<Job> {
    return this.#memory.active();
  }
  outboxSize(): Promise<number> {
    return this.#memory.outboxPending(10).then((entries) => entries.length);
  }

  async #change(change: JobChange, writer: string): Promise<ChangeResult> {
    const before = await this.#memory.get(change.next.spec.id);
    const result = await this.#memory.change(change);
    if (result.stored) this.#watch.committed(before, change.next, writer);
    return result;
  }

  #write<T>(process: Party, incarnation: number, act: () => Promise<T>): Promise<T> {
    const random = this.#random;
    const promise = Promise.withResolvers<T>();
    let isOpen = true;
    const answer = (settle: () => void): boolean => {
      if (!isOpen || process.incarnation !== incarnation || !process.isUp) return false;
      const waitMs = (process.frozenUntil ?? 0) - this.#world.now;
      if (waitMs > 0) {
        this.#world.after(waitMs, () => answer(settle));
        return false;
      }
      isOpen = false;
      settle();
      return true;
    };
    const isCut = this.#cut.has(process.name);
    const isLost = (this.isBad && random.chance(0.5)) || (isCut && random.chance(0.8));
    const isUnheard = isCut || (this.isBad && random.chance(0.3));
    const isSilent = random.chance(this.traits.lostAnswers);
    const travelMs = random.chance(this.traits.slow)
      ? random.int(10, this.traits.slowMsMax)
      : random.int(1, 6);
    this.#world.after(travelMs, async () => {
      if (isLost) {
        answer(() => promise.reject(new Error("the store did not take it")));
        return;
      }
      // Executed even if the sender is no more: it was on its way.
      const result = await act();
      if (isSilent) return;
      this.#world.after(random.int(0, 2), () =>
        answer(() =>
          isUnheard ? promise.reject(new Error("the line broke")) : promise.resolve(result),
        ),
      );
    });
    if (isSilent || travelMs >= answerMsMax)
      this.#world.after(answerMsMax, () =>
        answer(() => promise.reject(new Error("no answer from the store"))),
      );
    return promise.promise;
  }
}

import type { SchedulerConfig } from "./config.ts";
import type { Ms } from "./job.types.ts";
import type { JobStore, OutboxEntry } from "./job-store.ts";
import { MinHeap } from "./min-heap.ts";

export interface OutboxPorts {
  store: Pick<JobStore, "outboxPending" | "outboxDone">;
  now(): Ms;
  random(): number;
  /** Rejects when the receiver did not take it; it is tried again. */
  deliver(entry: OutboxEntry): Promise<void>;
  log(level: "info" | "warn" | "error", text: string): void;
  /** `nextAt` may be earlier than it was. */
  rearm(): void;
}

interface Due {
  entry: OutboxEntry;
  dueAt: Ms;
  tries: number;
}

const LOAD_MAX = 1_000;
/** More than this wait in the store only. */
const HELD_MAX = 10_000;

/** Delivers outbox entries at least once: an entry leaves the store after its receiver has taken it. */
export class OutboxSender {
  readonly #ports: OutboxPorts;
  readonly #config: SchedulerConfig;
  readonly #due = new MinHeap<Due>((a, b) => a.dueAt < b.dueAt);
  /** Ids that wait here or are under way. */
  readonly #known = new Set<string>();
  #underWay = 0;
  #moreInStore = true;
  #loadAt: Ms = 0;
  #closed = false;

  constructor(ports: OutboxPorts, config: SchedulerConfig) {
    this.#ports = ports;
    this.#config = config;
  }

  /** Entries that wait here or are under way; the store may have more. */
  get size(): number {
    return this.#known.size;
  }

  /** Takes an entry that was just stored. */
  add(entry: OutboxEntry): void {
    if (this.#known.size >= HELD_MAX) {
      this.#moreInStore = true;
      return;
    }
    if (this.#known.has(entry.id)) return;
    this.#known.add(entry.id);
    this.#due.push({ entry, dueAt: this.#ports.now(), tries: 0 });
    this.#send();
  }

  /** Sends what is due; reads more from the store when nothing is left here. */
  async tick(): Promise<void> {
    const now = this.#ports.now();
    if (this.#moreInStore && this.#known.size === 0 && now >= this.#loadAt) {
      // A store that does not answer is asked again later, not at once.
      this.#loadAt = now + this.#config.deliveryBackoffMs;
      const entries = await this.#ports.store.outboxPending(LOAD_MAX);
      this.#loadAt = now;
      this.#moreInStore = entries.length === LOAD_MAX;
      for (const entry of entries) this.add(entry);
    }
    this.#send();
  }

  /** The store may hold entries that nobody has told of here. */
  lookAgain(): void {
    this.#moreInStore = true;
  }

  close(): void {
    this.#closed = true;
  }

  nextAt(): Ms | undefined {
    if (this.#underWay >= this.#config.deliveriesMax) return undefined;
    if (this.#moreInStore && this.#known.size === 0)
      return Math.max(this.#ports.now(), this.#loadAt);
    return this.#due.peek()?.dueAt;
  }

  #send(): void {
    const now = this.#ports.now();
    while (!this.#closed && this.#underWay < this.#config.deliveriesMax) {
      const next = this.#due.peek();
      if (!next || next.dueAt > now) return;
      this.#due.pop();
      this.#underWay += 1;
      void this.#deliver(next).finally(() => {
        this.#underWay -= 1;
        this.#send();
        this.#ports.rearm();
      });
    }
  }

  async #deliver(due: Due): Promise<void> {
    try {
      await this.#ports.deliver(due.entry);
      await this.#ports.store.outboxDone([due.entry.id]);
      this.#known.delete(due.entry.id);
    } catch (error) {
      if (this.#closed) return;
      const tries = due.tries + 1;
      const { deliveryBackoffMs, deliveryBackoffMsMax } = this.#config;
      const fullMs = Math.min(
        deliveryBackoffMsMax,
        deliveryBackoffMs * 2 ** Math.min(20, tries - 1),
      );
      const delayMs = Math.round(fullMs / 2 + (fullMs / 2) * this.#ports.random());
      this.#ports.log(
        "warn",
        `${due.entry.action} for job ${due.entry.jobId} was not delivered (${(error as Error).message}); again in ${delayMs} ms`,
      );
      this.#due.push({ entry: due.entry, dueAt: this.#ports.now() + delayMs, tries });
    }
  }
}

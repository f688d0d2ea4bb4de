import { setImmediate } from "node:timers";
import { MinHeap } from "../../services/scheduler/min-heap.ts";
import { Random } from "./random.ts";

interface Event {
  at: number;
  seq: number;
  run: () => unknown;
}

/** Resolves when every promise that can go on has gone on: nothing here waits for I/O, so that is a fixed point. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/**
 * Virtual clock and event queue. All promises of the simulated code come from events of this queue, and after
 * each event they run until they wait again: so a seed determines everything.
 */
export class World {
  /** Events at one moment; more mean that somebody asks to be woken again and again without doing anything. */
  static readonly #eventsAtOnceMax = 20_000;
  readonly #seed: string;
  readonly #events = new MinHeap<Event>((a, b) => a.at < b.at || (a.at === b.at && a.seq < b.seq));
  readonly #trace: string[] | undefined;
  #now = 0;
  #seq = 0;
  #done = 0;

  constructor(seed: string, traced: boolean) {
    this.#seed = seed;
    this.#trace = traced ? [] : undefined;
  }

  /** Milliseconds since the start. */
  get now(): number {
    return this.#now;
  }
  get events(): number {
    return this.#done;
  }
  get trace(): readonly string[] {
    return this.#trace ?? [];
  }

  /** A random source of its own for one purpose, so that purposes do not disturb each other. */
  random(purpose: string): Random {
    return new Random(`${this.#seed}/${purpose}`);
  }

  /** Line for the history; the text is only made when somebody will read it. */
  note(text: () => string): void {
    this.#trace?.push(`${(this.#now / 1000).toFixed(3).padStart(9)} s  ${text()}`);
  }

  /** `run` may answer false to say that it did nothing: then no promise needs to be waited for. */
  after(delayMs: number, run: () => unknown): void {
    this.#seq += 1;
    this.#events.push({ at: this.#now + Math.max(0, delayMs), seq: this.#seq, run });
  }

  /** Runs events until `finished` says so, or until the time is over. */
  async run(untilMs: number, finished: () => boolean): Promise<void> {
    await settled();
    let atOnce = 0;
    for (
      let event = this.#events.peek();
      event && event.at <= untilMs;
      event = this.#events.peek()
    ) {
      this.#events.pop();
      atOnce = event.at === this.#now ? atOnce + 1 : 0;
      if (atOnce > World.#eventsAtOnceMax)
        throw new Error(`seed ${this.#seed}: the clock stands still at ${this.#now} ms`);
      this.#now = event.at;
      this.#done += 1;
      if (event.run() === false) continue;
      await settled();
      if (finished()) return;
    }
    this.#now = Math.max(this.#now, untilMs);
  }
}

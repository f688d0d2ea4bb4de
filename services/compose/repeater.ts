import type { Ms } from "../scheduler/job.types.ts";

interface Task {
  dueAt: Ms;
  pauseMs: Ms;
  tries: number;
  triesMax: number;
  running: boolean;
  run: () => Promise<unknown>;
  done: (answer: unknown) => void;
}

/** Repeats calls until they are answered, with growing pauses, driven by `tick` instead of timers. */
export class Repeater {
  readonly #tasks = new Set<Task>();
  readonly #now: () => Ms;
  readonly #changed: () => void;
  readonly #limits: { retryMsMin: number; retryMsMax: number };

  constructor(
    now: () => Ms,
    changed: () => void,
    limits: { retryMsMin: number; retryMsMax: number },
  ) {
    this.#now = now;
    this.#changed = changed;
    this.#limits = limits;
  }

  get isIdle(): boolean {
    return this.#tasks.size === 0;
  }

  get nextAt(): Ms {
    let at = Number.POSITIVE_INFINITY;
    for (const task of this.#tasks) if (!task.running) at = Math.min(at, task.dueAt);
    return at;
  }

  /**
   * Calls `run` now and again until it resolves, then hands the answer to `done`. After `triesMax` failures
   * `done` gets the last error instead.
   */
  add<T>(run: () => Promise<T>, done: (answer: T) => void): void;
  add<T>(run: () => Promise<T>, done: (answer: T | Error) => void, triesMax: number): void;
  add<T>(
    run: () => Promise<T>,
    done: (answer: T) => void,
    triesMax = Number.POSITIVE_INFINITY,
  ): void {
    const task: Task = {
      dueAt: this.#now(),
      pauseMs: this.#limits.retryMsMin,
      tries: 0,
      triesMax,
      running: false,
      run,
      done: done as (answer: unknown) => void,
    };
    this.#tasks.add(task);
    this.#start(task);
  }

  tick(now: Ms): void {
    for (const task of [...this.#tasks]) if (!task.running && now >= task.dueAt) this.#start(task);
  }

  #start(task: Task): void {
    task.running = true;
    task.tries += 1;
    task.run().then(
      (answer) => this.#finish(task, answer),
      (error: Error) => {
        if (task.tries >= task.triesMax) return this.#finish(task, error);
        task.running = false;
        task.dueAt = this.#now() + task.pauseMs;
        task.pauseMs = Math.min(task.pauseMs * 2, this.#limits.retryMsMax);
        this.#changed();
      },
    );
  }

  #finish(task: Task, answer: unknown): void {
    this.#tasks.delete(task);
    task.done(answer);
    this.#changed();
  }
}

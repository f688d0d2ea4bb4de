interface Sleeper {
  nextWakeAt(): number | undefined;
  tick(): Promise<void>;
}

/** Longest sleep that a timer of Node can hold. */
const SLEEP_MS_MAX = 2 ** 31 - 1;

/** One timer that wakes the leader when it asked to be woken, and never otherwise: an idle scheduler sleeps. */
export class WakeTimer {
  readonly #onError: (error: unknown) => void;
  #sleeper: Sleeper | undefined;
  #timer: NodeJS.Timeout | undefined;
  #wakeAt = Number.POSITIVE_INFINITY;
  #scheduled = false;
  #ticking = false;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  start(sleeper: Sleeper): void {
    this.#sleeper = sleeper;
    this.rearm();
  }

  stop(): void {
    this.#sleeper = undefined;
    clearTimeout(this.#timer);
  }

  /** Looks at the wake time again, once for all changes of this turn of the event loop. */
  rearm(): void {
    if (this.#scheduled || this.#ticking || !this.#sleeper) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#arm();
    });
  }

  #arm(): void {
    const wakeAt = this.#sleeper?.nextWakeAt();
    if (wakeAt === undefined) return;
    // An earlier alarm may stand: a tick with nothing to do costs little and arms the right one.
    if (this.#timer && this.#wakeAt <= wakeAt) return;
    clearTimeout(this.#timer);
    this.#wakeAt = wakeAt;
    const sleepMs = Math.min(SLEEP_MS_MAX, Math.max(0, wakeAt - Date.now()));
    this.#timer = setTimeout(() => void this.#wake(), sleepMs);
  }

  async #wake(): Promise<void> {
    this.#timer = undefined;
    this.#wakeAt = Number.POSITIVE_INFINITY;
    this.#ticking = true;
    try {
      await this.#sleeper?.tick();
    } catch (error) {
      this.#onError(error);
    } finally {
      this.#ticking = false;
    }
    this.rearm();
  }
}

/** Too many messages wait for one actor; the sender should come back later. */
export class MailboxFullError extends Error {
  readonly actorId: string;
  constructor(actorId: string, waiting: number) {
    super(`${waiting} messages wait for ${actorId} already`);
    this.actorId = actorId;
  }
}

interface Waiting<M, R> {
  message: M;
  resolve: (answer: R) => void;
  reject: (error: unknown) => void;
}

/**
 * Gives each actor one message at a time, in the order in which they came; actors do not wait for each other.
 * An actor's queue is bounded. What handling means (read the state, `step`, compare-and-set, then effects) is the
 * handler's business; the next message of that actor starts when its promise has settled.
 */
export class Mailbox<M, R> {
  readonly #handle: (actorId: string, message: M) => Promise<R>;
  readonly #waitingMax: number;
  /** An entry exists while its actor handles a message. */
  readonly #busy = new Map<string, Waiting<M, R>[]>();

  constructor(options: {
    handle: (actorId: string, message: M) => Promise<R>;
    waitingMax: number;
  }) {
    this.#handle = options.handle;
    this.#waitingMax = options.waitingMax;
  }

  /** Resolves with what the handler answers to this message. Rejects with MailboxFullError at once when too many wait. */
  send(actorId: string, message: M): Promise<R> {
    const queue = this.#busy.get(actorId);
    if (!queue) {
      this.#busy.set(actorId, []);
      return this.#run(actorId, message);
    }
    if (queue.length >= this.#waitingMax)
      return Promise.reject(new MailboxFullError(actorId, queue.length));
    return new Promise((resolve, reject) => {
      queue.push({ message, resolve, reject });
    });
  }

  /** Actors that handle a message now. */
  get busyCount(): number {
    return this.#busy.size;
  }

  isBusy(actorId: string): boolean {
    return this.#busy.has(actorId);
  }

  async #run(actorId: string, message: M): Promise<R> {
    try {
      return await this.#handle(actorId, message);
    } finally {
      this.#next(actorId);
    }
  }

  #next(actorId: string): void {
    const waiting = this.#busy.get(actorId)?.shift();
    if (!waiting) this.#busy.delete(actorId);
    else this.#run(actorId, waiting.message).then(waiting.resolve, waiting.reject);
  }
}

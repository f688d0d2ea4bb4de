import type { ExecutionLimits } from "./config.ts";

export interface LogLine {
  at: number;
  level: "info" | "warn" | "error";
  text: string;
}

/** Collects the log lines of one attempt and sends them in batches, in order, one call at a time. */
export class LogBatch {
  readonly #limits: ExecutionLimits;
  readonly #send: (lines: LogLine[]) => Promise<unknown>;
  #waiting: LogLine[] = [];
  #dropped = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> = Promise.resolve();

  constructor(limits: ExecutionLimits, send: (lines: LogLine[]) => Promise<unknown>) {
    this.#limits = limits;
    this.#send = send;
  }

  add(line: LogLine): void {
    if (this.#waiting.length >= this.#limits.logLinesMax) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push({ ...line, text: line.text.slice(0, this.#limits.logLineCharsMax) });
    this.#timer ??= setTimeout(() => void this.flush(), this.#limits.logFlushMs);
  }

  /** Sends what waits. A log line is not worth failing a job for: what cannot be sent is lost. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#dropped > 0) {
      this.#waiting.push({
        at: Date.now(),
        level: "warn",
        text: `${this.#dropped} log lines were dropped`,
      });
      this.#dropped = 0;
    }
    const lines = this.#waiting.splice(0);
    for (let from = 0; from < lines.length; from += this.#limits.logBatchMax) {
      const batch = lines.slice(from, from + this.#limits.logBatchMax);
      this.#sending = this.#sending
        .then(() => this.#send(batch))
        .then(
          () => undefined,
          () => undefined,
        );
    }
    return this.#sending;
  }
}

import { moveLimits } from "./limits.ts";

const mebibytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;

/** How far each kind is: one line that is written over on a terminal, a line now and then in a file. */
export class ProgressDisplay {
  readonly #out: NodeJS.WriteStream;
  #what = "";
  #since = 0;
  #shownAt = 0;
  #isOpen = false;

  constructor(out: NodeJS.WriteStream) {
    this.#out = out;
  }

  show(what: string, done: number, total: number, bytes?: number): void {
    const now = performance.now();
    if (what !== this.#what) {
      this.#what = what;
      this.#since = now;
      this.#shownAt = Number.NEGATIVE_INFINITY;
    }
    const each = this.#out.isTTY ? moveLimits.showEachMs : moveLimits.showEachMs * 10;
    const isEnd = done === total;
    if (!isEnd && now - this.#shownAt < each) return;
    this.#shownAt = now;
    const seconds = Math.max((now - this.#since) / 1000, 0.001);
    const rate =
      bytes === undefined
        ? `${Math.round(done / seconds)}/s`
        : `${mebibytes(bytes)}, ${mebibytes(bytes / seconds)}/s`;
    this.#line(`${what}: ${done} of ${total}${seconds < 1 ? "" : `, ${rate}`}`, isEnd);
  }

  say(text: string): void {
    if (this.#isOpen) this.#out.write("\n");
    this.#isOpen = false;
    this.#out.write(`${text}\n`);
  }

  #line(text: string, isEnd: boolean): void {
    if (!this.#out.isTTY) {
      this.#out.write(`${text}\n`);
      return;
    }
    this.#out.write(`\r\x1b[K${text}${isEnd ? "\n" : ""}`);
    this.#isOpen = !isEnd;
  }
}

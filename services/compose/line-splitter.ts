/** Cuts text into lines. A carriage return ends a line too, as in progress displays; a longer line is cut. */
export class LineSplitter {
  #rest = "";
  readonly #charsMax: number;
  readonly #onLine: (line: string) => void;

  constructor(charsMax: number, onLine: (line: string) => void) {
    this.#charsMax = charsMax;
    this.#onLine = onLine;
  }

  push(text: string): void {
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#emit(line);
    if (this.#rest.length > this.#charsMax) {
      this.#emit(this.#rest);
      this.#rest = "";
    }
  }

  end(): void {
    if (this.#rest) this.#emit(this.#rest);
    this.#rest = "";
  }

  #emit(line: string): void {
    if (line) this.#onLine(line.slice(0, this.#charsMax));
  }
}

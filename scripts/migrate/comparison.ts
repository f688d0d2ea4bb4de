import { createHash } from "node:crypto";
import { canonical, differingFields } from "./likeness.plan.ts";
import { moveLimits } from "./limits.ts";
import type { Compared } from "./summary.plan.ts";

/** Compares two places item by item, and sums both up to a hash each. Items come in the order of the source. */
export class Comparison {
  readonly #what: string;
  readonly #source = createHash("sha256");
  readonly #target = createHash("sha256");
  readonly #differences: string[] = [];
  #differing = 0;
  #sourceCount = 0;
  #targetCount = 0;
  #bytes: number | undefined;

  constructor(what: string) {
    this.#what = what;
  }

  get count(): number {
    return this.#sourceCount;
  }

  get bytes(): number {
    return this.#bytes ?? 0;
  }

  /** @param target undefined: it is not there. */
  add(name: string, source: object, target: object | undefined): void {
    const sourceText = canonical(source);
    this.#sourceCount += 1;
    this.#source.update(`${sourceText}\n`);
    if (!target) {
      this.differs(`${name} is missing in the target`);
      return;
    }
    const targetText = canonical(target);
    this.#targetCount += 1;
    this.#target.update(`${targetText}\n`);
    if (sourceText !== targetText)
      this.differs(
        `${name} is another one in the target: ${differingFields(source, target).join(", ")}`,
      );
  }

  addBytes(bytes: number): void {
    this.#bytes = this.bytes + bytes;
  }

  differs(sentence: string): void {
    this.#differing += 1;
    if (this.#differences.length < moveLimits.namedMax) this.#differences.push(sentence);
  }

  /** @param targetTotal everything that the target has of this kind. */
  result(targetTotal: number): Compared {
    return {
      what: this.#what,
      source: this.#sourceCount,
      target: this.#targetCount,
      others: Math.max(0, targetTotal - this.#targetCount),
      ...(this.#bytes === undefined ? {} : { bytes: this.#bytes }),
      sourceHash: this.#source.digest("hex"),
      targetHash: this.#target.digest("hex"),
      differences: this.#differences,
      differing: this.#differing,
    };
  }
}

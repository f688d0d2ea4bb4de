import { open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "../../../lib/errors.ts";
import { syncDirectory } from "../../../lib/sync-directory.ts";

/**
 * Which installation the attempts of this bridge belong to. The scheduler of another one knows none of them and would
 * have them killed; so it is kept out until the bridge holds nothing any more. On disk, since what a crash left
 * behind belongs to somebody too.
 */
export class SchedulerBinding {
  readonly #folder: string;
  #bound: string | undefined;
  #writing: Promise<void> | undefined;

  private constructor(folder: string, bound: string | undefined) {
    this.#folder = folder;
    this.#bound = bound;
  }

  static async open(folder: string): Promise<SchedulerBinding> {
    const text = await readFile(join(folder, "scheduler"), "utf8").catch(() => "");
    return new SchedulerBinding(folder, text.trim() || undefined);
  }

  get isBound(): boolean {
    return this.#bound !== undefined;
  }

  /**
   * Resolves when the bridge serves this installation, also after a crash.
   * @param isFree Nothing is held or open at the moment.
   * @throws AppError CONFLICT
   */
  async admit(installation: string, isFree: () => boolean): Promise<void> {
    await this.#writing?.catch(() => undefined);
    if (installation === this.#bound) return;
    if (this.#bound !== undefined && !isFree())
      throw new AppError("CONFLICT", {
        reason:
          "this bridge holds work of another installation; give each installation a bridge of its own",
      });
    this.#bound = installation;
    this.#writing = this.#write(installation);
    try {
      await this.#writing;
    } catch (error) {
      this.#bound = undefined;
      throw error;
    } finally {
      this.#writing = undefined;
    }
  }

  async #write(installation: string): Promise<void> {
    const path = join(this.#folder, "scheduler");
    const file = await open(`${path}.tmp`, "w", 0o600);
    try {
      await file.writeFile(`${installation}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(`${path}.tmp`, path);
    await syncDirectory(this.#folder);
  }
}

import { existsSync, readFileSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { syncDirectory } from "../../lib/sync-directory.ts";
import { moveLimits } from "./limits.ts";
import { MoveError } from "./move-error.ts";

const FILE = "migration.json";

const Progress = z.strictObject({
  format: z.literal(1),
  /** The target, without user and password. */
  target: z.string(),
  startedAt: z.string(),
  /** The S3 server of the target, once objects went there. */
  objectsTarget: z.string().optional(),
  /** When all was found equal, in databases and among objects: from then on the target goes its own way. */
  finished: z.strictObject({ data: z.string().optional(), objects: z.string().optional() }),
  /** Under which this move leads in the target: after a crash it knows itself again. */
  holder: z.string(),
  /** What is added to the places of jobs, so that they come after those that the target had. */
  placeOffset: z.int().min(0).optional(),
  /** Of each bucket the key up to which every object was found equal byte by byte, and a hash of what was listed so far. */
  buckets: z.record(z.string(), z.strictObject({ after: z.string(), listed: z.string() })),
});
export type Progress = z.output<typeof Progress>;

/** How far a move has come, in the directory that it carries. Written whole or not at all. */
export class ProgressFile {
  readonly path: string;
  readonly progress: Progress;
  readonly #dir: string;
  #savedAt = Number.NEGATIVE_INFINITY;

  private constructor(dir: string, path: string, progress: Progress) {
    this.#dir = dir;
    this.path = path;
    this.progress = progress;
  }

  /** @throws MoveError when the directory is on its way to another target. */
  static open(dir: string, fresh: Progress): ProgressFile {
    const path = join(dir, FILE);
    if (!existsSync(path)) return new ProgressFile(dir, path, fresh);
    const read = parsed(path);
    refuseOther(path, read.target, fresh.target);
    refuseOther(path, read.objectsTarget, fresh.objectsTarget);
    if (fresh.objectsTarget !== undefined) read.objectsTarget = fresh.objectsTarget;
    return new ProgressFile(dir, path, read);
  }

  /** Saves now and then; what is lost is done once more. */
  async saveSometimes(): Promise<void> {
    if (performance.now() - this.#savedAt >= moveLimits.saveEachMs) await this.save();
  }

  async save(): Promise<void> {
    this.#savedAt = performance.now();
    const temporary = `${this.path}.tmp`;
    try {
      const handle = await open(temporary, "w", 0o600);
      try {
        await handle.writeFile(`${JSON.stringify(this.progress, null, 2)}\n`);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(temporary, this.path);
      await syncDirectory(this.#dir);
    } catch (error) {
      throw new MoveError(
        `${this.path} cannot be written (${(error as Error).message}). Make room or give the right to write there, and run the same command again`,
      );
    }
  }
}

function refuseOther(path: string, was: string | undefined, is: string | undefined): void {
  if (was !== undefined && is !== undefined && was !== is)
    throw new MoveError(
      `${path} belongs to a move to ${was}, not to ${is}. Go on with that one, or remove the file to begin anew`,
    );
}

function parsed(path: string): Progress {
  try {
    return Progress.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    throw new MoveError(
      `${path} cannot be read as the progress of a move. Remove it: the move compares everything anew and carries what is missing`,
    );
  }
}

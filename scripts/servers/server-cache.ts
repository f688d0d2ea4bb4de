import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { limits } from "./config.ts";

/** Tells a person what takes so long. */
export type Progress = (line: string) => void;

/** A server can neither be found nor installed here. The message is one sentence: what is missing, what to set. */
export class ServerMissing extends Error {}

/** Where servers are kept between runs; read at each call, so that a test can point it elsewhere. */
export const cacheDir = () =>
  join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "reelmesh");

/**
 * Answers the folder `name` of the cache, made by `install` if it is not there. Several runs may ask at the same
 * time: one installs, the others wait. What was interrupted bears another name and is thrown away.
 * @param install Fills the folder that it is given.
 */
export async function installOnce(
  name: string,
  progress: Progress,
  install: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(cacheDir(), name);
  if (existsSync(folder)) return folder;
  await mkdir(cacheDir(), { recursive: true });
  const unlock = await lock(join(cacheDir(), `${name}.lock`), () =>
    progress(`waiting for another run that installs ${name}`),
  );
  try {
    if (existsSync(folder)) return folder;
    for (const entry of await readdir(cacheDir()))
      if (entry.startsWith(`${name}.partial-`))
        await rm(join(cacheDir(), entry), { recursive: true, force: true }).catch(() => undefined);
    const partial = await mkdtemp(join(cacheDir(), `${name}.partial-`));
    try {
      await install(partial);
      await rename(partial, folder);
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      throw error;
    }
    return folder;
  } finally {
    unlock();
  }
}

/** The operating system gives this lock back whatever way the process ends, `kill -9` included. */
async function lock(file: string, waiting: () => void): Promise<() => void> {
  const end = performance.now() + limits.installWaitMs;
  for (let told = false; ; ) {
    const database = new DatabaseSync(file);
    try {
      database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
      return () => database.close();
    } catch (error) {
      database.close();
      if (!/locked|busy/i.test((error as Error).message) || performance.now() > end) throw error;
    }
    if (!told) waiting();
    told = true;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

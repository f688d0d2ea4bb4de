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
  return withLock(name, progress, async () => {
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
  });
}

/** Does some work of an installation while no other run does the work of the same name. */
export async function withLock<T>(
  name: string,
  progress: Progress,
  work: () => Promise<T>,
): Promise<T> {
  await mkdir(cacheDir(), { recursive: true });
  const end = performance.now() + limits.installWaitMs;
  const file = join(cacheDir(), `${name}.lock`);
  let unlock = tryLock(file);
  if (!unlock) progress(`waiting for another run that installs ${name}`);
  while (!unlock) {
    if (performance.now() > end) throw new Error(`${file} is held by a run that does not end`);
    await new Promise((resolve) => setTimeout(resolve, limits.installWaitPauseMs));
    unlock = tryLock(file);
  }
  try {
    return await work();
  } finally {
    unlock();
  }
}

/**
 * The operating system gives this lock back whatever way the process ends, `kill -9` included.
 * @returns What gives it back, or undefined when somebody holds it.
 */
export function tryLock(file: string): (() => void) | undefined {
  const database = new DatabaseSync(file);
  try {
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return () => database.close();
  } catch (error) {
    database.close();
    if (!/locked|busy/i.test((error as Error).message)) throw error;
    return undefined;
  }
}

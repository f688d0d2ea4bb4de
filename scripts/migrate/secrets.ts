import { existsSync, readFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { MoveError } from "./move-error.ts";

/** The secrets that an installation made up for itself. Links, tokens and uploads are signed with them. */
export function secretsIn(dir: string): Record<string, string> {
  const file = join(dir, "secrets.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
}

/** As `NAME=value`; what a shell or an env file would read otherwise is put between quotes. */
const line = ([name, value]: [string, string]) =>
  `${name}=${/^[\w.~/+=:-]*$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`}\n`;

/** Writes them for the cluster's nodes, readable to the owner alone. @throws MoveError when the file is there. */
export async function writeSecrets(file: string, secrets: Record<string, string>): Promise<void> {
  try {
    const handle = await open(file, "wx", 0o600);
    try {
      await handle.writeFile(Object.entries(secrets).map(line).join(""));
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EEXIST")
      throw new MoveError(`--secrets: ${file} exists already; name a file that does not`);
    throw new MoveError(`--secrets: ${file} cannot be written (${message})`);
  }
}

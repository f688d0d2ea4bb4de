import { open } from "node:fs/promises";

/** So that the name of a new or moved file survives a power cut, like its content. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows cannot open a directory; there the rename itself is durable.
  if (process.platform === "win32") return;
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

import { outputsOf } from "../../lib/job-output-key.ts";
import { storageLimits } from "./config.ts";
import type { ObjectStore } from "./object-store.ts";

/**
 * Removes what attempts of an ended job have left. Their nodes do that too; one that is gone for good cannot.
 * @returns how many objects.
 */
export async function removeOutputs(
  store: Pick<ObjectStore, "list" | "removePrefix">,
  bucket: string,
  { jobId, upTo, keep }: { jobId: string; upTo: number; keep?: number },
): Promise<number> {
  const prefix = outputsOf(jobId);
  let removed = 0;
  let token: string | undefined;
  do {
    const limit = storageLimits.listDefault;
    const page = await store.list({ bucket, prefix, delimiter: "/", limit, token });
    for (const folder of page.folders) {
      const attempt = Number(folder.slice(prefix.length, -1));
      if (attempt <= upTo && attempt !== keep) removed += await store.removePrefix(bucket, folder);
    }
    token = page.next;
  } while (token !== undefined);
  return removed;
}

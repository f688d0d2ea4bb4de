import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Executor } from "./executor.ts";
import { noopPayload } from "./executor-kinds.ts";

const stepMs = 250;

/** Does nothing for a while: measures the scheduler itself, and lets operators try a cluster. */
export const noopExecutor: Executor<typeof noopPayload> = {
  kind: "noop",
  payload: noopPayload,
  usesFiles: ({ output }) => output !== undefined,
  async execute({ ms, output }, tools) {
    const endAt = performance.now() + ms;
    for (let leftMs = ms; leftMs > 0; leftMs = endAt - performance.now()) {
      await wait(Math.min(leftMs, stepMs), undefined, { signal: tools.signal });
      tools.progress(Math.min(1, 1 - (endAt - performance.now()) / ms), "waiting");
    }
    if (output === undefined) return { outputs: [], info: {} };
    const file = join(tools.workDir, "output.txt");
    await writeFile(file, output);
    return {
      outputs: [
        await tools.upload(file, {
          name: "output.txt",
          contentType: "text/plain; charset=utf-8",
          role: "media",
        }),
      ],
      info: {},
    };
  },
};

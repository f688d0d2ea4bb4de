import type { Readable } from "node:stream";
import type { Logger } from "moleculer";
import type { Config } from "../../lib/config.ts";
import { AppError } from "../../lib/errors.ts";
import type { ServiceHost } from "../../lib/service.ts";
import type { StartOrder } from "../scheduler/job.types.ts";
import type { ExecutionLimits } from "./config.ts";
import type { LogLine } from "./log-batch.ts";

/** What an attempt reaches beyond its machine: over the mesh, or by signed links from a bridge outside of it. */
export interface AttemptHost {
  config: Config;
  logger: Pick<Logger, "warn">;
  /**
   * Waits until the object storage can be used. Right after a start the jobs of the last run may come before it;
   * failing them would cost each an attempt.
   * @throws AppError UNAVAILABLE after `waitMs`.
   */
  storageThere(waitMs: number, signal: AbortSignal): Promise<void>;
  read(source: { bucket: string; key: string }): Promise<NodeJS.ReadableStream>;
  put(
    object: { bucket: string; key: string; contentType: string; bytes: number },
    stream: Readable,
  ): Promise<unknown>;
  /** Lines for the job's log; one that cannot be delivered is lost. */
  addLog(order: StartOrder, lines: LogLine[]): Promise<unknown>;
}

const storagePollMs = 200;

/** The host of attempts on a node of the mesh: everything is a call. */
export const meshHost = (host: ServiceHost, limits: ExecutionLimits): AttemptHost => ({
  config: host.config,
  logger: host.logger,
  async storageThere(waitMs, signal) {
    for (let waitedMs = 0; waitedMs < waitMs; waitedMs += storagePollMs) {
      signal.throwIfAborted();
      const found = await host.broker.waitForServices("storage", storagePollMs, 20).then(
        () => true,
        () => false,
      );
      if (found) return;
    }
    throw new AppError("UNAVAILABLE", { reason: "no node offers the object storage" });
  },
  read: (source) => host.call("storage.read", source, { timeout: 0 }),
  put: (object, stream) => host.call("storage.put", object, { stream, timeout: 0 }),
  addLog: ({ jobId, attempt }, lines) =>
    host.call("scheduler.addLog", { jobId, attempt, lines }, { timeout: limits.callMs }),
});

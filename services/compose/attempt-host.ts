import type { Logger } from "moleculer";
import type { Config } from "../../lib/config.ts";
import { AppError } from "../../lib/errors.ts";
import type { ActionName, ServiceHost } from "../../lib/service.ts";
import type { StartOrder } from "../scheduler/job.types.ts";
import type { OwnAddresses } from "../storage/storage.contract.ts";
import type { ExecutionLimits } from "./config.ts";
import type { LogLine } from "./log-batch.ts";
import { directAccess, linkAccess, meshLinks, type ObjectAccess } from "./object-access.ts";

/** Whether a node of the mesh offers the action at the moment. */
export const canCall = (host: Pick<ServiceHost, "broker">, action: ActionName): boolean =>
  (
    host.broker.registry as unknown as { actions: { isAvailable(name: string): boolean } }
  ).actions.isAvailable(action);

/** What an attempt reaches beyond its machine: over the mesh, or by signed links from a bridge outside of it. */
export interface AttemptHost {
  config: Config;
  logger: Pick<Logger, "warn">;
  /** How addresses of the product's own objects look, and the bucket of outputs. */
  addresses(): Promise<OwnAddresses>;
  /**
   * The way to objects, chosen anew for each try. Right after a start the jobs of the last run may come before the
   * object storage: what is not there yet is tried again for a while.
   * @throws AppError UNAVAILABLE
   */
  objects(): ObjectAccess;
  /** Lines for the job's log; one that cannot be delivered is lost. */
  addLog(order: StartOrder, lines: LogLine[]): Promise<unknown>;
}

/** The host of attempts on a node of the mesh: everything is a call, or a link that a call gave. */
export function meshHost(host: ServiceHost, limits: ExecutionLimits): AttemptHost {
  const direct = directAccess(host);
  const links = linkAccess(meshLinks(host, limits), limits);
  const checkStorage = () => {
    // Calling what is not there makes the broker warn each time.
    if (!canCall(host, "storage.stat"))
      throw new AppError("UNAVAILABLE", { reason: "no node offers the object storage" });
  };
  return {
    config: host.config,
    logger: host.logger,
    async addresses() {
      checkStorage();
      return host.call("storage.addresses", {}, { timeout: limits.callMs });
    },
    objects() {
      checkStorage();
      // Large data does not belong into the mesh: from another process it comes over HTTP.
      return host.broker.getLocalService("storage") ? direct : links;
    },
    addLog: ({ jobId, attempt }, lines) =>
      host.call("scheduler.addLog", { jobId, attempt, lines }, { timeout: limits.callMs }),
  };
}

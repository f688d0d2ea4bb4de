import type { Config } from "../../../lib/config.ts";
import { asAppError } from "../../../lib/errors.ts";
import { healthLimits } from "../../health/config.ts";
import type { Finding } from "../../health/readiness.policy.ts";
import { bounded, ReportKeeper } from "../../health/report-keeper.ts";
import { findFfmpeg } from "../media/ffmpeg.ts";
import { bridgeName } from "./bridge-log.ts";

interface Bridge {
  config: Config;
  /** Asks the bridge's own storage for an object that is not there. */
  lookAtObjects(): Promise<unknown>;
  /** An installation's scheduler has sent work here. */
  isBound(): boolean;
  /** Since the scheduler's last look; absent: none has looked in this run. */
  lastPollMs(): number | undefined;
}

type Look = Pick<Finding, "state" | "reason">;
const ok: Look = { state: "ok" };

async function ffmpeg(config: Config): Promise<Look> {
  try {
    await findFfmpeg(config);
    return ok;
  } catch (error) {
    return { state: "down", reason: (error as Error).message };
  }
}

async function objects(look: () => Promise<unknown>): Promise<Look> {
  try {
    await look();
    return ok;
  } catch (error) {
    const type = asAppError(error)?.type;
    if (type === "OBJECT_NOT_FOUND") return ok;
    return { state: "down", reason: `the storage says ${type ?? "nothing that is known"}` };
  }
}

/** One that nobody has used yet is no fault: a bridge may serve people alone. */
function scheduler({ isBound, lastPollMs }: Bridge): Look {
  const since = lastPollMs();
  if (since === undefined)
    return isBound()
      ? { state: "down", reason: "its scheduler has not asked since the start of the bridge" }
      : ok;
  if (since <= healthLimits.nodeFreshMs) return ok;
  return { state: "down", reason: `no scheduler has asked for ${Math.round(since / 1000)} s` };
}

/**
 * What a bridge outside the mesh depends on. The product's storage is not among it: the bridge reaches that by the
 * links of each task alone, and has none of its own to try.
 */
export const bridgeReadiness = (bridge: Bridge): ReportKeeper =>
  new ReportKeeper(bridgeName(bridge.config), ["bridge"], () =>
    Promise.all([
      bounded(ffmpeg(bridge.config)).then((found) => ({
        name: "ffmpeg",
        essential: true,
        affects: ["nothing can be rendered"],
        ...found,
      })),
      bounded(objects(bridge.lookAtObjects)).then((found) => ({
        name: "own objects",
        essential: false,
        affects: ["tasks that are sent to this bridge itself cannot be stored"],
        ...found,
      })),
      bounded(scheduler(bridge)).then((found) => ({
        name: "scheduler",
        essential: false,
        affects: ["attempts run out of their leases, and no further ones come"],
        ...found,
      })),
    ]),
  );

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Config, ConfigError, type LoadedConfig } from "../../../lib/config.ts";
import { lockAs } from "../../../lib/data-lock.ts";
import { type OpenTelemetry, openTelemetry } from "../../../lib/telemetry/node-telemetry.ts";
import { BridgeHost } from "./bridge-host.ts";
import { bridgeLog, bridgeName } from "./bridge-log.ts";
import { BridgeServer } from "./bridge-server.ts";
import { isLoopback } from "./loopback.policy.ts";

export interface RunningBridge {
  url: string;
  /** Stops running work, hands it back, and answers until that is heard. */
  stop(): Promise<void>;
}

/** @throws ConfigError when others could reach the bridge with a token that nobody chose. */
function checkToken({ config, sources }: LoadedConfig): void {
  if (isLoopback(config.HOST) || sources.BRIDGE_TOKEN === "environment") return;
  throw new ConfigError(
    `BRIDGE_TOKEN: missing. HOST ${config.HOST} lets other machines in; set BRIDGE_TOKEN to a secret of at least 12 characters that the scheduler gets too`,
  );
}

/** The server answers until the scheduler has heard what is handed back. */
async function stop(host: BridgeHost, server: BridgeServer, end: () => unknown): Promise<void> {
  try {
    await host.stop();
  } finally {
    await server.close();
    await end();
  }
}

/**
 * Starts a bridge alone: no mesh, no database. What it keeps lies in its own folder, apart from that of a product
 * on the same machine.
 * @throws ConfigError with one sentence.
 */
export async function startBridge(loaded: LoadedConfig): Promise<RunningBridge> {
  checkToken(loaded);
  const config: Config = {
    ...loaded.config,
    DATA_DIR: join(loaded.config.DATA_DIR, "bridge"),
    // Its sources are objects of the product, whose addresses it is told with each order.
    PUBLIC_URL: undefined,
    OSS_DOMAIN: undefined,
    SERVICES: ["compose"],
  };
  const log = bridgeLog(config);
  await mkdir(config.DATA_DIR, { recursive: true, mode: 0o700 }).catch((error: Error) => {
    throw new ConfigError(`DATA_DIR: ${error.message}. Set it to a directory of yours`);
  });
  const unlock = lockAs("bridge", config.DATA_DIR);
  let server: BridgeServer | undefined;
  let telemetry: OpenTelemetry | undefined;
  const end = async () => {
    await telemetry?.close();
    unlock();
  };
  try {
    const listening = await BridgeServer.listen(config, log);
    server = listening;
    const baseUrl = (loaded.config.PUBLIC_URL ?? listening.url).replace(/\/+$/, "");
    const own = { ...config, PORT: listening.port };
    telemetry = await openTelemetry(own, bridgeName(own));
    telemetry.warnTo((text) => log.warn(text));
    const host = await BridgeHost.open(own, log, baseUrl);
    listening.serve(host);
    return { url: listening.url, stop: () => stop(host, listening, end) };
  } catch (error) {
    await server?.close();
    await end();
    throw error;
  }
}

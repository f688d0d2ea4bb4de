import { ConfigError, loadConfig } from "../lib/config.ts";
import { startNode } from "../services/node.ts";

try {
  const { config } = loadConfig();
  const node = await startNode(config);
  console.log(`reelmesh serves ${node.address?.url ?? config.SERVICES.join(", ")}`);
  let stopping = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, async () => {
      if (stopping) process.exit(1);
      stopping = true;
      await node.stop();
      process.exit(0);
    });
  }
} catch (error) {
  console.error(error instanceof ConfigError ? `reelmesh: ${error.message}` : error);
  process.exit(1);
}

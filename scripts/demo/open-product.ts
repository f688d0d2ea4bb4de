import type { Config } from "../../lib/config.ts";
import { startNode } from "../../services/node.ts";

export interface OpenProduct {
  url: string;
  /** Started for the demo, as opposed to one that was running already on the same data. */
  own: boolean;
  close: () => Promise<void>;
}

async function running(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    return false;
  }
}

/** The product on its embedded defaults: started here, or the one that already serves this data directory. */
export async function openProduct(config: Config): Promise<OpenProduct> {
  try {
    const node = await startNode(config);
    return { url: node.address?.url ?? "", own: true, close: node.stop };
  } catch (error) {
    const url = config.PUBLIC_URL ?? `http://${config.HOST}:${config.PORT}`;
    const { code } = error as { code?: string };
    if (code === "DATA_DIR_LOCKED" && (await running(url)))
      return { url, own: false, close: async () => undefined };
    // Another program has the port: any free one will do for a demo.
    if (code === "EADDRINUSE") {
      const node = await startNode({ ...config, PORT: 0 });
      return { url: node.address?.url ?? "", own: true, close: node.stop };
    }
    throw error;
  }
}

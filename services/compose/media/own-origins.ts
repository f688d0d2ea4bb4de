import type { Config } from "../../../lib/config.ts";
import type { OwnAddresses } from "../../storage/storage.contract.ts";
import type { SourceContext } from "./source.policy.ts";

/**
 * How this installation's own links look, so that they are read from storage and not over the network.
 * @param own as the storage service tells; a node by itself knows no gateway but its own.
 */
export function sourceContext(config: Config, own?: OwnAddresses): SourceContext {
  const host = config.HOST.includes(":") ? `[${config.HOST}]` : config.HOST;
  const hosts = new Set([host, "127.0.0.1", "localhost", "[::1]"]);
  const local = [...hosts].map((name) => `http://${name}:${config.PORT}`);
  const known = config.PUBLIC_URL ? [new URL(config.PUBLIC_URL).origin, ...local] : local;
  return {
    bucket: own?.bucket ?? config.OSS_BUCKET_NAME,
    ownOrigins: [...new Set([...known, ...(own?.origins ?? [])])],
    anyPort: config.PORT === 0 && !own?.origins,
    bucketUrl: own?.bucketUrl ?? config.OSS_DOMAIN,
    s3: own?.s3,
  };
}

import type { Config } from "../../../lib/config.ts";
import type { SourceContext } from "./source.policy.ts";

/** How this installation's own links look, so that they are read from storage and not over the network. */
export function sourceContext(config: Config): SourceContext {
  const host = config.HOST.includes(":") ? `[${config.HOST}]` : config.HOST;
  const hosts = new Set([host, "127.0.0.1", "localhost", "[::1]"]);
  const local = [...hosts].map((name) => `http://${name}:${config.PORT}`);
  return {
    bucket: config.OSS_BUCKET_NAME,
    ownOrigins: config.PUBLIC_URL ? [new URL(config.PUBLIC_URL).origin, ...local] : local,
    anyPort: config.PORT === 0,
    bucketUrl: config.OSS_DOMAIN,
  };
}

import dns from "node:dns";
import { s3HostName } from "../../scripts/servers/s3.ts";

/** The same server by its name instead of its address. */
export function named(endpoint: string): string {
  const url = new URL(endpoint);
  url.hostname = s3HostName;
  return url.origin;
}

/**
 * Lets the hosts of buckets be found, which no name server knows, until the answer is called. Every connection of Node
 * that is given no lookup of its own asks here.
 */
export function resolveS3Names(): () => void {
  const real = dns.lookup;
  const ours = (host: string, ...rest: unknown[]) =>
    (real as (...all: unknown[]) => void)(
      host === s3HostName || host.endsWith(`.${s3HostName}`) ? "127.0.0.1" : host,
      ...rest,
    );
  dns.lookup = Object.assign(ours, real) as typeof dns.lookup;
  return () => {
    dns.lookup = real;
  };
}

import { networkInterfaces } from "node:os";
import type { Config } from "../../lib/config.ts";

const loopback = ["localhost", "127.0.0.1", "[::1]"];
const bracketed = (address: string) => (address.includes(":") ? `[${address}]` : address);

/**
 * Host names under which the protocol is served. A web page whose name was made to point at this machine
 * (DNS rebinding) sends its own name, which is none of these.
 */
export function servedHosts({ HOST, PUBLIC_URL }: Pick<Config, "HOST" | "PUBLIC_URL">): string[] {
  const everywhere = HOST === "0.0.0.0" || HOST === "::";
  const own = everywhere
    ? Object.values(networkInterfaces()).flatMap((addresses) =>
        (addresses ?? []).map(({ address }) => bracketed(address.split("%")[0]!)),
      )
    : [bracketed(HOST)];
  const published = PUBLIC_URL ? [new URL(PUBLIC_URL).hostname] : [];
  return [...new Set([...loopback, ...own, ...published])];
}

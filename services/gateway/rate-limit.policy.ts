import type { Actor } from "../../lib/contract.ts";
import { clientNetworkOf } from "../../lib/net/client-network.policy.ts";

/** What counts as one client for the rate limit; undefined: it is not limited. */
export function clientKeyOf(actor: Actor | undefined, address: string): string | undefined {
  if (!actor) return `address:${clientNetworkOf(address)}`;
  // Bridges and nodes of the installation itself: their reports must arrive above all under load.
  if (actor.realm === "bridge" || actor.realm === "system") return undefined;
  // A token from the settings is shared by many: one of them must not use up what belongs to the others.
  const place = actor.session === undefined ? `@${clientNetworkOf(address)}` : "";
  return `${actor.realm}:${actor.id}${place}`;
}

/** How a client stands after a request. */
export interface Allowance {
  /** Requests that a window allows. */
  limit: number;
  windowSeconds: number;
  remaining: number;
  /** Milliseconds until the window ends and all are free again. */
  resetMs: number;
}

/** Header fields of draft-ietf-httpapi-ratelimit-headers, version 10. */
export const rateLimitHeaders = ({ limit, windowSeconds, remaining, resetMs }: Allowance) => ({
  "RateLimit-Policy": `"client";q=${limit};w=${windowSeconds}`,
  RateLimit: `"client";r=${remaining};t=${Math.ceil(resetMs / 1000)}`,
});

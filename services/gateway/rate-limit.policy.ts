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
  /** This request is one too many. */
  exceeded: boolean;
}

/** Header fields of draft-ietf-httpapi-ratelimit-headers, version 10. */
export const rateLimitHeaders = ({ limit, windowSeconds, remaining, resetMs }: Allowance) => ({
  "RateLimit-Policy": `"client";q=${limit};w=${windowSeconds}`,
  RateLimit: `"client";r=${remaining};t=${Math.ceil(resetMs / 1000)}`,
});

/** What a gateway takes at once of a client's allowance: 1 %, so that as much is lost where it is not used up. */
export const shareOf = (limit: number): number =>
  Math.min(1_000, Math.max(1, Math.floor(limit / 100)));

/** What a gateway holds of a client's allowance in the running window. */
export interface Lease {
  left: number;
  /** What nobody has taken yet. */
  others: number;
  /** When the window ends, in milliseconds of a clock that does not jump. */
  resetAt: number;
}

/** @param consumed What has been taken in this window, with this share, over all gateways; above the limit: in vain. */
export function leaseOf(limit: number, share: number, consumed: number, resetAt: number): Lease {
  const inVain = Math.max(0, consumed - limit);
  return { left: Math.max(0, share - inVain), others: Math.max(0, limit - consumed), resetAt };
}

/** Takes one request out of the lease; undefined: another lease has to be asked for. */
export function take(
  lease: Lease,
  now: number,
): Pick<Allowance, "remaining" | "resetMs" | "exceeded"> | undefined {
  const resetMs = lease.resetAt - now;
  if (resetMs <= 0) return undefined;
  if (lease.left > 0) {
    lease.left -= 1;
    return { remaining: lease.left + lease.others, resetMs, exceeded: false };
  }
  return lease.others > 0 ? undefined : { remaining: 0, resetMs, exceeded: true };
}

import type { Ms } from "./job.types.ts";
import type { Leadership } from "./job-store.ts";

/** What a node has seen of the leadership, and since when it has looked like this, on the node's monotonic clock. */
export interface Sighting {
  leadership: Leadership;
  sinceMs: Ms;
}

/** Takes a reading. It is dated when it was heard, which is later than the leader's act that it shows. */
export function sighted(before: Sighting | undefined, leadership: Leadership, nowMs: Ms): Sighting {
  const isSame =
    before?.leadership.term === leadership.term && before.leadership.beat === leadership.beat;
  return { leadership, sinceMs: isSame ? before.sinceMs : nowMs };
}

/** Why a node may take over. */
export type Claim = "first" | "resigned" | "own" | "alone" | "lapsed";

/**
 * Whether a standby may try to take over; the store's compare-and-set on term and beat then decides. "own": this very
 * run of the process holds the term without acting under it, since an answer was lost or its lease ended.
 */
export function claimOn(
  seen: Sighting,
  nowMs: Ms,
  given: { holder: string; leaseMs: Ms; isExclusive: boolean },
): Claim | undefined {
  const { term, holder } = seen.leadership;
  if (term === 0) return "first";
  if (holder === "") return "resigned";
  if (holder === given.holder) return "own";
  if (given.isExclusive) return "alone";
  return nowMs - seen.sinceMs >= given.leaseMs ? "lapsed" : undefined;
}

/** A tenth of the lease is kept back for clocks that do not run at the same pace. */
const PACE_RESERVE = 0.1;

export interface LeaderTimes {
  /** Standbys wait for this long. */
  leaseMs: Ms;
  /** The leader counts on this much, from when it sent the renewal that was confirmed. */
  ownLeaseMs: Ms;
  renewMs: Ms;
  /** How often a standby looks, and a leader tries again that could not renew. */
  pollMs: Ms;
}

export const leaderTimes = (leaseMs: Ms): LeaderTimes => ({
  leaseMs,
  ownLeaseMs: Math.floor(leaseMs * (1 - PACE_RESERVE)),
  renewMs: Math.floor(leaseMs / 4),
  pollMs: Math.floor(leaseMs / 8),
});

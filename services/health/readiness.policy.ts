import type { DependencyState } from "../../lib/dependency-state.ts";

/** ok: works. degraded: works less well. down: does not work. */
export type Health = "ok" | "degraded" | "down";

/** What one look at a dependency has shown. */
export interface Finding {
  name: string;
  state: Health;
  /** Without it this node cannot serve. */
  essential: boolean;
  /** What does not work while it is not ok. */
  affects: readonly string[];
  /** Why it is not ok, in words that carry no secret. */
  reason?: string;
  /** Milliseconds since the epoch; absent: whoever looks keeps the time. */
  since?: number;
}

/** One line of `/readyz`. */
export interface DependencyLine extends Omit<Finding, "since" | "affects"> {
  /** ISO 8601: since when it is in this state, as far as this node saw it. */
  since: string;
  /** Absent while all works. */
  affects?: readonly string[];
}

export interface ReadinessReport {
  /** down: this node cannot serve. */
  status: Health;
  node: string;
  roles: readonly string[];
  dependencies: readonly DependencyLine[];
}

/** A server as its user reported it, in the terms of a report. */
export const findingOf = (dependency: DependencyState): Finding => ({
  name: dependency.name,
  state: dependency.state === "up" ? "ok" : "down",
  essential: dependency.essential,
  affects: dependency.degrades,
  reason: dependency.reason,
  since: dependency.since,
});

/**
 * The whole from its parts: a node is down when something is that it cannot serve without, and degraded when
 * anything else is not ok.
 */
export function statusOf(findings: readonly Pick<Finding, "state" | "essential">[]): Health {
  if (findings.some(({ state, essential }) => essential && state === "down")) return "down";
  return findings.every(({ state }) => state === "ok") ? "ok" : "degraded";
}

/** What the report of the nodes says about who renders. */
export function composeFinding(
  nodes: readonly { draining: boolean; lastSeenMs: number }[],
  freshMs: number,
): Pick<Finding, "state" | "reason"> {
  const fresh = nodes.filter(({ lastSeenMs }) => lastSeenMs <= freshMs);
  if (fresh.length === 0) return { state: "down", reason: "no compose node reports" };
  if (fresh.every(({ draining }) => draining))
    return { state: "degraded", reason: "every compose node is draining" };
  return { state: "ok" };
}

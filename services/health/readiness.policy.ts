import type { DependencyState } from "../../lib/dependency-state.ts";

/** ok: works. degraded: works less well. down: does not work. */
export type Health = "ok" | "degraded" | "down";

/** What the scheduler nodes say of their leader. */
export interface LeaderView {
  role: "leader" | "standby" | "stopped";
  /** Node that leads; empty: none. */
  holder: string;
  term: number;
  /** Time since the leader's last sign of life; absent where it needs none. */
  lastRenewedMs?: number;
}

/** What one look at a dependency has shown. */
export interface Finding {
  name: string;
  /** Of the scheduler: who leads it, as the node says that knows best. */
  leader?: LeaderView;
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

/**
 * Who leads the scheduler, from what each of its nodes knows. The one that leads knows best; of the others, the one
 * that has seen the latest term and its latest renewal.
 * @param leaseMs Without a renewal for longer than this the leader leads no more, and nobody has taken over.
 */
export function leaderFinding(
  views: readonly LeaderView[],
  leaseMs: number,
): Pick<Finding, "state" | "reason" | "leader"> {
  const rank = (view: LeaderView) => [
    view.term,
    view.role === "leader" ? 1 : 0,
    -(view.lastRenewedMs ?? 0),
  ];
  const [leader] = [...views].sort((a, b) => {
    const [left, right] = [rank(a), rank(b)];
    const at = left.findIndex((value, index) => value !== right[index]);
    return at < 0 ? 0 : (right[at] ?? 0) - (left[at] ?? 0);
  });
  if (!leader) return { state: "degraded", reason: "no scheduler node says who leads" };
  const { role, holder, lastRenewedMs } = leader;
  if (holder === "" || role === "stopped")
    return { state: "degraded", reason: "no scheduler node leads yet", leader };
  if (lastRenewedMs !== undefined && lastRenewedMs > leaseMs) {
    const reason = `nobody leads the scheduler: ${holder} was heard last ${Math.round(lastRenewedMs)} ms ago`;
    return { state: "degraded", reason, leader };
  }
  return { state: "ok", leader };
}

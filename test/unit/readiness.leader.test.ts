import { expect, test } from "@jest/globals";
import { type LeaderView, leaderFinding } from "../../services/health/readiness.policy.ts";

const leaseMs = 6_000;
const view = (over: Partial<LeaderView> = {}): LeaderView => ({
  role: "standby",
  holder: "one",
  term: 3,
  lastRenewedMs: 900,
  ...over,
});

test("the word of the node that leads counts before that of one that stands by", () => {
  const leader = view({ role: "leader", holder: "one", lastRenewedMs: 1_500 });
  expect(leaderFinding([view({ lastRenewedMs: 10 }), leader], leaseMs)).toEqual({
    state: "ok",
    leader,
  });
});

test("a later term counts before a leader that has not noticed its end", () => {
  const old = view({ role: "leader", holder: "one", term: 3, lastRenewedMs: 100 });
  const next = view({ holder: "two", term: 4, lastRenewedMs: 50 });
  expect(leaderFinding([old, next], leaseMs).leader).toBe(next);
});

test("of nodes that stand by, the one that has seen the latest renewal is believed", () => {
  const late = view({ lastRenewedMs: 7_000 });
  const fresh = view({ lastRenewedMs: 200 });
  expect(leaderFinding([late, fresh], leaseMs)).toEqual({ state: "ok", leader: fresh });
});

test("a lease that has run out while nobody took over degrades, with how long ago it was renewed", () => {
  expect(leaderFinding([view({ lastRenewedMs: 6_001 })], leaseMs)).toMatchObject({
    state: "degraded",
    reason: "nobody leads the scheduler: one was heard last 6001 ms ago",
    leader: { holder: "one", term: 3 },
  });
  expect(leaderFinding([view({ lastRenewedMs: 6_000 })], leaseMs).state).toBe("ok");
});

test("a leader that needs no lease, as on an embedded store, is never late", () => {
  const leader = view({ role: "leader", lastRenewedMs: undefined });
  expect(leaderFinding([leader], leaseMs)).toEqual({ state: "ok", leader });
});

test("no answer and an office that nobody has taken yet are told apart", () => {
  expect(leaderFinding([], leaseMs).reason).toBe("no scheduler node says who leads");
  expect(leaderFinding([view({ holder: "", term: 0 })], leaseMs)).toMatchObject({
    state: "degraded",
    reason: "no scheduler node leads yet",
  });
});

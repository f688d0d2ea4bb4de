import type { NodePorts } from "../../services/compose/node-ports.ts";
import type { SchedulerConfig } from "../../services/scheduler/config.ts";
import type { LeaderPorts } from "../../services/scheduler/leader.ts";
import type { Invariant } from "./checkers.ts";
import type { BreakBridge } from "./simulated-bridge.ts";
import type { NodeFaults } from "./simulated-node.ts";
import type { BreakablePorts, LeaderCalls } from "./simulated-scheduler.ts";
import type { SimulatedStore } from "./simulated-store.ts";

/** One rule of the design broken on purpose, from outside the product's code. */
export interface BrokenRule {
  /** The invariant that must notice. */
  invariant: Invariant;
  about: string;
  config?: Partial<SchedulerConfig>;
  wrapCalls?: (calls: LeaderCalls, store: SimulatedStore) => LeaderCalls;
  wrapStore?: (store: LeaderPorts["store"]) => LeaderPorts["store"];
  wrapLeaderPorts?: <P extends BreakablePorts>(ports: P) => P;
  node?: NodeFaults;
  /** Requests to bridges outside the mesh. */
  bridge?: BreakBridge;
}

/** The leader's calls with some replaced. A class keeps its methods on the prototype, so they are bound one by one. */
const replacing = (calls: LeaderCalls, replaced: Partial<LeaderCalls>): LeaderCalls => ({
  submit: (...given) => calls.submit(...given),
  cancel: (...given) => calls.cancel(...given),
  retry: (...given) => calls.retry(...given),
  pause: (...given) => calls.pause(...given),
  resume: (...given) => calls.resume(...given),
  get: (...given) => calls.get(...given),
  heartbeat: (...given) => calls.heartbeat(...given),
  complete: (...given) => calls.complete(...given),
  fail: (...given) => calls.fail(...given),
  handBack: (...given) => calls.handBack(...given),
  ...replaced,
});

export const brokenRules = {
  "ack-before-disk": {
    invariant: "no job lost",
    about: "A job's id is answered before the job is on disk",
    wrapStore: (store) => ({
      ...store,
      change(change) {
        const stored = store.change(change);
        stored.catch(() => undefined);
        return change.expectedVersion === 0 ? Promise.resolve({ stored: true }) : stored;
      },
    }),
  },
  "no-callback": {
    invariant: "no job lost",
    about: "The callback leaves the outbox without having been made",
    wrapStore: (store) => ({
      ...store,
      change: (change) => store.change({ ...change, outbox: [] }),
    }),
  },
  "no-fence": {
    invariant: "one result",
    about: "Every attempt that reports its end hears that it won",
    wrapCalls: (calls) =>
      replacing(calls, {
        complete: (ref) => calls.complete(ref).then(() => ({ outcome: "committed" as const })),
      }),
  },
  "blind-cleanup": {
    invariant: "one result",
    about: "A restarted node deletes what its last run uploaded without asking whether it won",
    node: { wrapPorts: (ports) => ({ ...ports, isCommitted: async () => false }) },
  },
  "unknown-is-refused": {
    invariant: "attempts",
    about: "No answer from a node is taken for a refusal",
    wrapLeaderPorts: (ports) => ({
      ...ports,
      begin: (node, order) =>
        ports.begin(node, order).catch(() => ({ outcome: "refused" as const, reason: "silence" })),
    }),
  },
  "attempts-start-over": {
    invariant: "attempts",
    about: "A job that goes back to the queue forgets the number of its last attempt",
    wrapStore: (store) => ({
      ...store,
      change(change) {
        const { next } = change;
        if (next.state !== "pending" || next.history.attempt === 0) return store.change(change);
        const history = { ...next.history, attempt: next.history.attempt - 1 };
        return store.change({ ...change, next: { ...next, history } });
      },
    }),
  },
  "no-sweep": {
    invariant: "leases",
    about: "The scheduler does not look for leases that have run out",
    config: { sweepMs: 3_600_000 },
  },
  "no-self-kill": {
    invariant: "leases",
    about: "A node that is not renewed goes on",
    node: { wrapPorts: neverExpiring },
  },
  "orphans-live": {
    invariant: "leases",
    about: "A restarted node has forgotten what it was running",
    node: { forgetsJournal: true },
  },
  "cancel-in-memory": {
    invariant: "cancel",
    about: "A cancellation is confirmed before it is stored",
    wrapCalls: (calls) =>
      replacing(calls, {
        async cancel(id, reason) {
          const job = await calls.get(id);
          if (job.state !== "running") return calls.cancel(id, reason);
          return { ...job, state: "cancelled" };
        },
      }),
  },
  "retry-beats-cancel": {
    invariant: "cancel",
    about: "The error of an attempt that was cancelled puts its job back into the queue",
    wrapCalls: (calls, store) =>
      replacing(calls, {
        async fail(ref) {
          const answer = await calls.fail(ref);
          const job = await store.read(ref.jobId);
          if (answer.outcome === "fenced" && job?.state === "cancelled")
            await calls.retry(job.spec.id);
          return answer;
        },
      }),
  },
  "term-unchecked": {
    invariant: "one leader",
    about: "The store takes changes whatever term they were made in",
    wrapStore: (store) => ({
      ...store,
      change: (change) => store.change({ ...change, term: Number.MAX_SAFE_INTEGER }),
    }),
  },
  "lease-unchecked": {
    invariant: "one leader",
    about: "A leader goes on after its lease without asking the clock",
    wrapLeaderPorts: (ports) => ({ ...ports, holdsLease: () => true }),
  },
  "impatient-standby": {
    invariant: "one leader",
    about: "A standby takes over without waiting for the end of the lease",
    wrapStore: (store) => ({
      ...store,
      leadership: async () => {
        const leadership = await store.leadership();
        return leadership.term > 0 ? { ...leadership, holder: "" } : leadership;
      },
    }),
  },
  "strays-ignored": {
    invariant: "no job lost",
    about:
      "Jobs that were stored late, by an earlier leader or after their writer gave up, are not looked for",
    config: { straysMs: 3_600_000 },
  },
  "bridge-not-fenced": {
    invariant: "one result",
    about: "A bridge outside the mesh is never told that its attempt has lost",
    bridge: (calls) => ({
      ...calls,
      answer: (answer) =>
        calls.answer(answer.word === "fenced" ? { ...answer, word: "taken" } : answer),
    }),
  },
  "bridge-lease-for-ever": {
    invariant: "leases",
    about: "A bridge outside the mesh that was renewed once goes on, whatever it is told",
    bridge: (calls) => ({
      ...calls,
      cancel: async () => undefined,
      attempt: (query) =>
        calls.attempt(query.mark === undefined ? query : { ...query, lease_ms: 3_600_000 }),
    }),
  },
  "no-ageing": {
    invariant: "no starvation",
    about: "Waiting does not lift a job",
    config: { agePointMs: 3_600_000 },
  },
} as const satisfies Record<string, BrokenRule>;

export type BrokenRuleName = keyof typeof brokenRules;

/** Ports whose clock stands still for leases: whatever the scheduler grants lasts for ever. */
function neverExpiring(ports: NodePorts): NodePorts {
  return {
    ...ports,
    // The limit is taken from the clock at the time of the order and of each heartbeat.
    heartbeat: (attempts, draining) =>
      ports.heartbeat(attempts, draining).catch(() => ({
        renewed: attempts.map(({ jobId, attempt }) => ({ jobId, attempt, leaseMs: 20_000 })),
        fenced: [],
      })),
  };
}

import { beforeEach, describe, expect, test } from "@jest/globals";
import { nodeLimits } from "../../services/compose/config.ts";
import { NodeAgent } from "../../services/compose/node-agent.ts";
import type {
  AttemptKey,
  ExecutionOutcome,
  JournalEntry,
  NodePorts,
  ReportAnswer,
} from "../../services/compose/node-ports.ts";
import type { AttemptReport, StartOrder } from "../../services/scheduler/job.types.ts";

const result = { hash: "h", outputs: [], info: {} };
const keyText = ({ jobId, attempt }: AttemptKey) => `${jobId}/${attempt}`;

/** Everything around an agent, with a clock that stands until it is moved. */
class Surroundings {
  now = 1_000;
  wakeAt = Number.POSITIVE_INFINITY;
  events: string[] = [];
  journal = new Map<string, JournalEntry>();
  beats: AttemptReport[][] = [];
  running = new Map<string, { signal: AbortSignal; end: (outcome: ExecutionOutcome) => void }>();
  committed = new Set<string>();
  /** What the scheduler answers; a test may put in its own. */
  heartbeat: NodePorts["heartbeat"] = async (attempts) => ({
    renewed: attempts.map(({ jobId, attempt }) => ({ jobId, attempt, leaseMs: 20_000 })),
    fenced: [],
  });
  complete: () => Promise<ReportAnswer> = async () => "taken";
  agent: NodeAgent;

  constructor(slots = 1, left: JournalEntry[] = []) {
    for (const entry of left) this.journal.set(keyText(entry), entry);
    const identity = { node: "n1", boot: "b2", slots, kinds: ["noop"] };
    this.agent = new NodeAgent(identity, this.ports(), nodeLimits);
  }

  ports(): NodePorts {
    const said =
      (what: string) =>
      async (key: AttemptKey): Promise<void> => {
        this.events.push(`${what} ${keyText(key)}`);
      };
    return {
      nowMonotonic: () => this.now,
      journal: {
        add: async (entry) => {
          this.events.push(`journal ${keyText(entry)}`);
          this.journal.set(keyText(entry), entry);
        },
        addProcess: async () => undefined,
        release: said("release"),
        remove: async (key) => {
          this.journal.delete(keyText(key));
        },
        entries: () => [...this.journal.values()],
      },
      execute: (order, signal) => {
        this.events.push(`execute ${keyText(order)}`);
        return new Promise((end) => {
          this.running.set(keyText(order), { signal, end });
        });
      },
      killOrphan: said("kill"),
      discardOutput: said("discard"),
      isCommitted: async (key) => this.committed.has(keyText(key)),
      heartbeat: (attempts, draining) => {
        this.beats.push(attempts);
        return this.heartbeat(attempts, draining);
      },
      complete: (key) => {
        this.events.push(`complete ${keyText(key)}`);
        return this.complete();
      },
      fail: async (key, error) => {
        this.events.push(`fail ${keyText(key)} ${error.type}`);
        return "taken";
      },
      handBack: async (holder, attempts, cause) => {
        this.events.push(`handBack ${holder.boot} ${attempts.map(keyText).join(" ")} ${cause}`);
      },
      log: () => undefined,
      wakeAt: (at) => {
        this.wakeAt = at;
      },
    };
  }

  /** Lets promises run until they wait for something of the test. */
  async settle(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
  }
  /** Moves the clock, waking the agent whenever it asked for that. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms;
    await this.settle();
    while (this.wakeAt <= until) {
      this.now = Math.max(this.now, this.wakeAt);
      this.agent.tick(this.now);
      await this.settle();
    }
    this.now = until;
  }
  async end(key: string, outcome: ExecutionOutcome = { ok: true, result }): Promise<void> {
    this.running.get(key)?.end(outcome);
    await this.settle();
  }
}

const order = (jobId: string, attempt = 1, changes: Partial<StartOrder> = {}): StartOrder => ({
  jobId,
  attempt,
  kind: "noop",
  payload: {},
  owner: "o",
  leaseMs: 20_000,
  boot: "b2",
  ...changes,
});
const aborted: ExecutionOutcome = {
  ok: false,
  error: { type: "INTERNAL", message: "aborted" },
  retryable: true,
};

let world: Surroundings;
beforeEach(async () => {
  world = new Surroundings();
  await world.agent.recover();
  await world.pass(1);
});

describe("orders", () => {
  test("an attempt is in the journal before it is executed, and is not executed twice", async () => {
    await expect(world.agent.begin(order("a"))).resolves.toEqual({ outcome: "accepted" });
    await expect(world.agent.begin(order("a"))).resolves.toEqual({ outcome: "duplicate" });
    await world.end("a/1");
    await expect(world.agent.begin(order("a"))).resolves.toEqual({ outcome: "duplicate" });
    expect(world.events).toEqual(["journal a/1", "execute a/1", "complete a/1"]);
    expect(world.journal.size).toBe(0);
  });

  test.each([
    ["for another run of the node", order("a", 3, { boot: "b1" }), "another run"],
    ["older than one that is known", order("a", 1), "attempt 2 is known"],
    ["of a kind that the node does not do", order("b", 1, { kind: "bake" }), "bake"],
    ["without a free slot", order("b"), "no free slot"],
  ])("an order %s is refused and leaves nothing", async (_name, refused, reason) => {
    await world.agent.begin(order("a", 2));
    const before = [...world.events];
    await expect(world.agent.begin(refused)).resolves.toEqual({
      outcome: "refused",
      reason: expect.stringContaining(reason),
    });
    expect(world.events).toEqual(before);
  });

  test("a newer attempt of a job ends the older one, waits for its slot and then runs", async () => {
    await world.agent.begin(order("a", 1));
    await world.agent.begin(order("a", 2));
    expect(world.running.get("a/1")?.signal.aborted).toBe(true);
    expect(world.running.has("a/2")).toBe(false);
    await world.end("a/1", aborted);
    expect(world.running.has("a/2")).toBe(true);
    expect(world.events).toContain("discard a/1");
  });

  test("a stop that overtakes its order keeps the attempt from starting", async () => {
    expect(world.agent.halt({ jobId: "a", attempt: 1 }, "cancelled")).toEqual({ held: false });
    await expect(world.agent.begin(order("a"))).resolves.toEqual({ outcome: "duplicate" });
    expect(world.running.size).toBe(0);
  });
});

describe("leases", () => {
  test("a heartbeat goes every 5 s and names what runs", async () => {
    await world.agent.begin(order("a"));
    const before = world.beats.length;
    await world.pass(15_000);
    expect(world.beats.slice(before)).toEqual(
      Array.from({ length: 3 }, () => [{ jobId: "a", attempt: 1, progress: 0 }]),
    );
  });

  test("work that is not renewed for 20 s is killed, its output deleted, and nothing reported", async () => {
    await world.agent.begin(order("a"));
    world.heartbeat = () => Promise.reject(new Error("no answer"));
    await world.pass(19_900);
    expect(world.running.get("a/1")?.signal.aborted).toBe(false);
    await world.pass(200);
    expect(world.running.get("a/1")?.signal.aborted).toBe(true);
    await world.end("a/1", aborted);
    expect(world.events).toEqual(["journal a/1", "execute a/1", "discard a/1"]);
  });

  test("what the answer does not renew is killed, and the free slot is told at once", async () => {
    await world.agent.begin(order("a"));
    world.heartbeat = async () => ({ renewed: [], fenced: [] });
    await world.pass(5_000);
    expect(world.running.get("a/1")?.signal.aborted).toBe(true);
    const before = world.beats.length;
    await world.end("a/1", aborted);
    await world.pass(1);
    expect(world.beats.slice(before)).toEqual([[]]);
  });
});

describe("reports", () => {
  test("completion is repeated until it is answered, whatever heartbeats say meanwhile", async () => {
    world.complete = () => Promise.reject(new Error("no answer"));
    await world.agent.begin(order("a"));
    await world.end("a/1");
    world.heartbeat = async () => ({
      renewed: [],
      fenced: [{ jobId: "a", attempt: 1, reason: "superseded" }],
    });
    await world.pass(60_000);
    expect(world.events).not.toContain("discard a/1");
    world.complete = async () => "taken";
    await world.pass(5_000);
    expect(world.journal.size).toBe(0);
    expect(world.events).not.toContain("discard a/1");
  });

  test("an attempt that lost deletes its output and is forgotten", async () => {
    world.complete = async () => "fenced";
    await world.agent.begin(order("a"));
    await world.end("a/1");
    expect(world.events.slice(-2)).toEqual(["complete a/1", "discard a/1"]);
    expect(world.agent.isEmpty).toBe(true);
  });

  test("a result that the scheduler cannot take fails the job for good", async () => {
    world.complete = async () => ({ invalid: { type: "INVALID_INPUT", message: "too large" } });
    await world.agent.begin(order("a"));
    await world.end("a/1");
    expect(world.events).toContain("fail a/1 INVALID_INPUT");
  });
});

describe("drain and restart", () => {
  test("a drain lets work end within its time, then stops it and hands it back", async () => {
    await world.agent.begin(order("a"));
    const drained = world.agent.drain(10_000);
    await expect(world.agent.begin(order("b"))).resolves.toMatchObject({ outcome: "refused" });
    await world.pass(9_000);
    expect(world.running.get("a/1")?.signal.aborted).toBe(false);
    await world.pass(1_100);
    expect(world.running.get("a/1")?.signal.aborted).toBe(true);
    await world.end("a/1", aborted);
    await drained;
    expect(world.events.slice(-3)).toEqual(["release a/1", "handBack b2 a/1 drain", "discard a/1"]);
  });

  test("a new run kills the orphans of the last one first, hands them back, and keeps what won", async () => {
    const entry = { kind: "noop", node: "n0", boot: "b1", processes: [], released: false };
    const left = [
      { ...entry, jobId: "a", attempt: 1 },
      { ...entry, jobId: "b", attempt: 4, released: true },
    ];
    world = new Surroundings(1, left);
    world.committed.add("a/1");
    await expect(world.agent.begin(order("c"))).resolves.toMatchObject({ outcome: "refused" });
    await world.agent.recover();
    await world.pass(10);
    expect(world.events).toEqual([
      "kill a/1",
      "kill b/4",
      "handBack b1 a/1 restart",
      "handBack b1 b/4 drain",
      "discard b/4",
    ]);
    expect(world.journal.size).toBe(0);
    expect(world.beats.length).toBeGreaterThan(0);
  });
});

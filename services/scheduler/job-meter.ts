import { Counter, Histogram } from "prom-client";
import { secondBuckets, telemetryLimits } from "../../lib/telemetry/config.ts";
import type { Metrics } from "../../lib/telemetry/metrics.ts";
import { telemetryOf } from "../../lib/telemetry/node-telemetry.ts";
import type { Effect } from "./job.messages.ts";
import type { HeartbeatAnswer, Job } from "./job.types.ts";
import { bandOf, countsOf, type JobCount } from "./job-counts.policy.ts";

/** What a leader tells of its jobs, as it happens. */
export interface JobMetrics {
  /** A new job of this queue is on disk. */
  accepted(queue: string): void;
  moved(before: Job | undefined, after: Job, effects: readonly Effect[]): void;
  /** A node was told of each of these that it does not hold the attempt. */
  fenced(attempts: HeartbeatAnswer["fenced"]): void;
  /** A node reported the end of an attempt that was not its own any more. */
  lateReport(): void;
}

/** What is read of a leader when somebody asks for the numbers. */
interface Watched {
  nodes(): readonly {
    node: string;
    slots: number;
    used: number;
    cpuPercent: number;
    memoryPercent: number;
    draining: boolean;
    lastSeenMs: number;
    gpu: { usedPercent: number };
  }[];
  readonly outboxSize: number;
}

const OTHER = "other";

/** Numbers of the jobs on the node that leads the scheduler. On a standby they rest. */
export class JobMeter implements JobMetrics {
  readonly #jobs: Counter<"queue" | "event">;
  readonly #attempts: Counter<"queue" | "outcome">;
  readonly #fenced: Counter<"reason">;
  readonly #nodesLost: Counter;
  readonly #terms: Counter;
  readonly #wait: Histogram<"queue">;
  readonly #run: Histogram<"kind" | "outcome">;
  /** Jobs that are not over, by queue, state and band of priority, each in one text. */
  readonly #cells = new Map<
    string,
    { queue: string; state: string; band: string; count: number }
  >();
  readonly #queues = new Set<string>();
  #leader: { watched: Watched; term: number } | undefined;

  constructor(metrics: Metrics) {
    const registers = [metrics.registry];
    this.#jobs = new Counter({
      name: "reelmesh_jobs_total",
      help: "Jobs by what happened to them",
      labelNames: ["queue", "event"],
      registers,
    });
    this.#attempts = new Counter({
      name: "reelmesh_attempts_total",
      help: "Attempts that were started, and how they ended",
      labelNames: ["queue", "outcome"],
      registers,
    });
    this.#fenced = new Counter({
      name: "reelmesh_fenced_total",
      help: "Times that a node was told that an attempt is not its own any more",
      labelNames: ["reason"],
      registers,
    });
    this.#nodesLost = new Counter({
      name: "reelmesh_nodes_lost_total",
      help: "Attempts that were lost with their node",
      registers,
    });
    this.#terms = new Counter({
      name: "reelmesh_scheduler_terms_total",
      help: "Times that this node became the scheduler's leader; more than one in the mesh is a failover",
      registers,
    });
    this.#wait = new Histogram({
      name: "reelmesh_job_wait_seconds",
      help: "Time from when a job could start to the start of its attempt",
      labelNames: ["queue"],
      buckets: [...secondBuckets.wait],
      registers,
    });
    this.#run = new Histogram({
      name: "reelmesh_job_run_seconds",
      help: "Time of an attempt from its claim to its end",
      labelNames: ["kind", "outcome"],
      buckets: [...secondBuckets.run],
      registers,
    });
    this.#addGauges(metrics);
  }

  /** The node leads from now on; jobs are told to `moved` anew. */
  lead(watched: Watched, term: number): void {
    this.#terms.inc();
    this.#leader = { watched, term };
  }

  /** Another leader's jobs are no business of this node. Call before the next leader is opened. */
  rest(): void {
    this.#leader = undefined;
    this.#cells.clear();
  }

  accepted(queue: string): void {
    this.#jobs.inc({ queue: this.#nameOf(queue), event: "accepted" });
  }

  fenced(attempts: HeartbeatAnswer["fenced"]): void {
    for (const { reason } of attempts) this.#fenced.inc({ reason });
  }

  lateReport(): void {
    this.#fenced.inc({ reason: "late-report" });
  }

  moved(before: Job | undefined, after: Job, effects: readonly Effect[]): void {
    this.#recount(before, after);
    for (const count of countsOf(before, after, effects, Date.now())) this.#note(after, count);
  }

  #note({ spec }: Job, count: JobCount): void {
    const queue = this.#nameOf(spec.queue);
    switch (count.type) {
      case "started":
        this.#attempts.inc({ queue, outcome: "started" });
        this.#wait.observe({ queue }, count.waitedS);
        return;
      case "attempt":
        this.#attempts.inc({ queue, outcome: count.end });
        this.#run.observe({ kind: spec.kind, outcome: count.end }, count.ranS);
        return;
      case "nodeLost":
        this.#nodesLost.inc();
        return;
      case "ended":
        this.#jobs.inc({ queue, event: count.as });
        return;
      case "again":
        this.#jobs.inc({ queue, event: "retried" });
        return;
      default:
        unreachable(count);
    }
  }

  #recount(before: Job | undefined, after: Job): void {
    if (before?.state === after.state) return;
    if (before) this.#add(before, -1);
    this.#add(after, 1);
  }

  #add({ spec, state }: Job, by: 1 | -1): void {
    if (state !== "pending" && state !== "running") return;
    const queue = this.#nameOf(spec.queue);
    const band = bandOf(spec.priority);
    const key = `${state} ${band} ${queue}`;
    const cell = this.#cells.get(key) ?? { queue, state, band, count: 0 };
    cell.count += by;
    if (cell.count > 0) this.#cells.set(key, cell);
    else this.#cells.delete(key);
  }

  /** Names of queues come from callers: their number must not grow the numbers without end. */
  #nameOf(queue: string): string {
    if (this.#queues.has(queue)) return queue;
    if (this.#queues.size >= telemetryLimits.queuesMax) return OTHER;
    this.#queues.add(queue);
    return queue;
  }

  #addGauges(metrics: Metrics): void {
    metrics.gauge(
      "reelmesh_queue_jobs",
      "Jobs that wait or run, by queue and band of priority (smaller is more urgent)",
      ["queue", "state", "band"],
      (set) => {
        for (const { count, ...labels } of this.#cells.values()) set(labels, count);
      },
    );
    metrics.gauge("reelmesh_scheduler_leader", "1 on the node that leads", [], (set) =>
      set({}, this.#leader ? 1 : 0),
    );
    metrics.gauge("reelmesh_scheduler_term", "Term of the leader on this node", [], (set) => {
      if (this.#leader) set({}, this.#leader.term);
    });
    metrics.gauge("reelmesh_outbox_entries", "Callbacks that are not delivered yet", [], (set) => {
      if (this.#leader) set({}, this.#leader.watched.outboxSize);
    });
    metrics.gauge(
      "reelmesh_compose_node",
      "What compose nodes report of themselves",
      ["node", "what"],
      (set) => {
        const nodes = this.#leader?.watched.nodes() ?? [];
        for (const { node, ...load } of nodes.slice(0, telemetryLimits.nodesMax)) {
          set({ node, what: "slots" }, load.slots);
          set({ node, what: "slots_used" }, load.used);
          set({ node, what: "cpu_percent" }, load.cpuPercent);
          set({ node, what: "memory_percent" }, load.memoryPercent);
          set({ node, what: "gpu_percent" }, load.gpu.usedPercent);
          set({ node, what: "draining" }, load.draining ? 1 : 0);
          set({ node, what: "silent_seconds" }, load.lastSeenMs / 1000);
        }
      },
    );
  }
}

function unreachable(count: never): never {
  throw new Error(`not a count: ${JSON.stringify(count)}`);
}

const meters = new WeakMap<Metrics, JobMeter>();

/** The meter of the node with this configuration; nothing where numbers are switched off. */
export function jobMeterOf(config: object): JobMeter | undefined {
  const { metrics } = telemetryOf(config);
  if (!metrics) return undefined;
  let meter = meters.get(metrics);
  if (!meter) {
    meter = new JobMeter(metrics);
    meters.set(metrics, meter);
  }
  return meter;
}

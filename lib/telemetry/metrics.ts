import { monitorEventLoopDelay } from "node:perf_hooks";
import { Counter, Gauge, Registry } from "prom-client";
import { secondBuckets, telemetryLimits } from "./config.ts";
import { HeldHistogram, type Series } from "./held-histogram.ts";

/** Something that is read when somebody asks for the numbers, not before. */
export type Collector = () => void | Promise<void>;

const NS_PER_S = 1e9;
const statusClasses = ["cut", "1xx", "2xx", "3xx", "4xx", "5xx"] as const;
const methods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/**
 * The numbers of one node in Prometheus' text form. What runs often keeps its series at hand, so that counting one
 * request is an addition and not a search by labels; what can be read is read only when it is asked for.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly #collectors = new Set<Collector>();
  readonly #http: HeldHistogram<"method" | "route" | "status">;
  readonly #httpSeries = new Map<string, Map<string, Series[]>>();
  readonly #actions: HeldHistogram<"action" | "outcome">;
  readonly #loop: ReturnType<typeof monitorEventLoopDelay>;

  constructor(nodeId: string, roles: readonly string[]) {
    const registers = [this.registry];
    this.#http = new HeldHistogram(
      this.registry,
      "reelmesh_http_request_seconds",
      "Time from the head of a request to the end of its answer, by pattern of the route",
      secondBuckets.http,
    );
    this.#actions = new HeldHistogram(
      this.registry,
      "reelmesh_action_seconds",
      "Time that actions took on this node",
      secondBuckets.action,
    );
    new Gauge({
      name: "reelmesh_node_info",
      help: "1; the labels say which node this is and what it hosts",
      labelNames: ["node", "roles"],
      registers,
    }).set({ node: nodeId, roles: [...roles].sort().join(",") }, 1);
    this.#loop = monitorEventLoopDelay({ resolution: telemetryLimits.loopResolutionMs });
    this.#loop.enable();
    this.#addProcess(registers);
  }

  /** Notes one answer. `status` 0: the client went away before its end. */
  request(method: string, route: string, status: number, seconds: number): void {
    const known = methods.has(method) ? method : "other";
    let byMethod = this.#httpSeries.get(route);
    if (!byMethod) {
      byMethod = new Map();
      this.#httpSeries.set(route, byMethod);
    }
    let series = byMethod.get(known);
    if (!series) {
      series = [];
      byMethod.set(known, series);
    }
    const at = Math.trunc(status / 100);
    const index = at >= 1 && at <= 5 ? at : 0;
    series[index] ??= this.#http.series({
      method: known,
      route,
      status: statusClasses[index] ?? "cut",
    });
    series[index].observe(seconds);
  }

  /** Series of one action; ask once and keep it. One that never fails has no line of zeros. */
  action(name: string): { ok(seconds: number): void; error(seconds: number): void } {
    let ok: Series | undefined;
    let failed: Series | undefined;
    return {
      ok: (seconds) => {
        ok ??= this.#actions.series({ action: name, outcome: "ok" });
        ok.observe(seconds);
      },
      error: (seconds) => {
        failed ??= this.#actions.series({ action: name, outcome: "error" });
        failed.observe(seconds);
      },
    };
  }

  /** A gauge whose lines are written anew each time somebody asks: `read` sets those that there are now. */
  gauge<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    read: (
      set: (labels: Partial<Record<L, string>>, value: number) => void,
    ) => void | Promise<void>,
  ): () => void {
    const gauge = new Gauge({
      name,
      help,
      labelNames: [...labelNames],
      registers: [this.registry],
    });
    return this.addCollector(async () => {
      const lines: [Partial<Record<L, string>>, number][] = [];
      await read((labels, value) => lines.push([labels, value]));
      gauge.reset();
      for (const [labels, value] of lines) gauge.set(labels as never, value);
    });
  }

  /** Runs before the numbers are given; one that fails leaves its numbers as they were. */
  addCollector(collector: Collector): () => void {
    this.#collectors.add(collector);
    return () => this.#collectors.delete(collector);
  }

  async text(): Promise<{ contentType: string; body: string }> {
    await Promise.allSettled([...this.#collectors].map(async (collect) => collect()));
    return { contentType: this.registry.contentType, body: await this.registry.metrics() };
  }

  close(): void {
    this.#loop.disable();
    this.#collectors.clear();
  }

  #addProcess(registers: Registry[]): void {
    const lag = new Gauge({
      name: "reelmesh_event_loop_lag_seconds",
      help: "Delay of the event loop since the last reading",
      labelNames: ["quantile"],
      registers,
    });
    const memory = new Gauge({
      name: "process_memory_bytes",
      help: "Memory of the process by kind",
      labelNames: ["kind"],
      registers,
    });
    const cpu = new Counter({
      name: "process_cpu_seconds_total",
      help: "Processor time of the process",
      labelNames: ["mode"],
      registers,
    });
    new Gauge({
      name: "process_start_time_seconds",
      help: "Start of the process, in seconds since the epoch",
      registers,
    }).set(performance.timeOrigin / 1000);
    let before = { user: 0, system: 0 };
    this.addCollector(() => {
      const resolutionNs = telemetryLimits.loopResolutionMs * 1e6;
      const above = (ns: number) => Math.max(0, (Number.isFinite(ns) ? ns : 0) - resolutionNs);
      for (const quantile of [0.5, 0.99])
        lag.set(
          { quantile: String(quantile) },
          above(this.#loop.percentile(quantile * 100)) / NS_PER_S,
        );
      lag.set({ quantile: "1" }, above(this.#loop.max) / NS_PER_S);
      this.#loop.reset();
      const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
      for (const [kind, bytes] of Object.entries({ rss, heapUsed, external, arrayBuffers }))
        memory.set({ kind }, bytes);
      const used = process.cpuUsage();
      cpu.inc({ mode: "user" }, (used.user - before.user) / 1e6);
      cpu.inc({ mode: "system" }, (used.system - before.system) / 1e6);
      before = used;
    });
  }
}

import { basename } from "node:path";
import { LRUCache } from "lru-cache";
import type { Logger } from "moleculer";
import { Histogram } from "prom-client";
import type { ServiceHost } from "../../lib/service.ts";
import { renderRatioBuckets } from "../../lib/telemetry/config.ts";
import { type Telemetry, telemetryOf } from "../../lib/telemetry/node-telemetry.ts";
import type { Span, SpanAttributes, Tracing } from "../../lib/telemetry/span.ts";
import { currentWork, type WorkScope, withinWork } from "../../lib/telemetry/work-scope.ts";
import type { StartOrder } from "../scheduler/job.types.ts";
import { nodeLimits } from "./config.ts";
import type { AttemptTools } from "./executor-tools.ts";
import { keyText } from "./held-attempt.ts";
import type { AttemptKey, ExecutionOutcome } from "./node-ports.ts";

/** Spans of one attempt: itself, its stage, and what each stage does. */
class AttemptSpans {
  readonly scope: WorkScope;
  readonly #tracing: Tracing;
  readonly #attempt: Span;
  #stage: { name: string; span: Span } | undefined;

  constructor(tracing: Tracing, attempt: Span, scope: WorkScope) {
    this.#tracing = tracing;
    this.#attempt = attempt;
    this.scope = scope;
  }

  enter(name: string | undefined): void {
    if (name === undefined || name === this.#stage?.name) return;
    this.#stage?.span.end();
    const span = this.#tracing.begin({ name: `stage ${name}`, parent: this.#attempt });
    this.#stage = { name, span };
    // What the attempt calls from here on belongs to this stage.
    this.scope.span = span;
  }

  async step<T>(
    name: string,
    attributes: SpanAttributes,
    work: Promise<T>,
    factsOf: (result: T) => SpanAttributes = () => ({}),
  ): Promise<T> {
    const parent = this.#stage?.span ?? this.#attempt;
    const span = this.#tracing.begin({ name, parent, attributes });
    try {
      const result = await work;
      span.set(factsOf(result));
      span.end();
      return result;
    } catch (error) {
      span.end(error ?? new Error("failed"));
      throw error;
    }
  }

  end(outcome: ExecutionOutcome | undefined): void {
    const error = outcome?.ok ? undefined : (outcome?.error ?? new Error("failed"));
    this.#stage?.span.end(error);
    this.#attempt.end(error);
    this.scope.span = this.#attempt;
  }
}

const spansOf = new WeakMap<WorkScope, AttemptSpans>();

/** The attempt's tools, with a span for each use where the attempt is recorded; else the tools as they are. */
export function watchedTools(tools: AttemptTools): AttemptTools {
  const scope = currentWork();
  const spans = scope && spansOf.get(scope);
  if (!spans) return tools;
  return {
    ...tools,
    progress(fraction, stage) {
      spans.enter(stage);
      tools.progress(fraction, stage);
    },
    run: (command, args, options) =>
      spans.step(basename(command), {}, tools.run(command, args, options), ({ code, signal }) => ({
        "process.exit.code": code ?? undefined,
        "process.signal": signal ?? undefined,
      })),
    download: (source, file, bytesMax) =>
      spans.step("fetch", { "object.key": source.key }, tools.download(source, file, bytesMax)),
    upload: (file, output) =>
      spans.step("upload", { "object.name": output.name }, tools.upload(file, output)),
  };
}

/**
 * Follows the attempts of one node: log lines carry job and attempt, spans hang under the trace of the job, and renders
 * are measured against the length of what they made.
 */
export class AttemptWatch {
  readonly #telemetry: Telemetry;
  readonly #node: string;
  readonly #log: Pick<Logger, "info">;
  readonly #ratio: Histogram<"kind"> | undefined;
  /** Of attempts whose end may not have been told yet. */
  readonly #scopes = new LRUCache<string, WorkScope>({ max: nodeLimits.unsettledMax });
  #running = 0;

  /** @param node Name that spans and lines give the node. */
  constructor(
    { config, logger }: Pick<ServiceHost, "config"> & { logger: Pick<Logger, "info"> },
    node: string,
  ) {
    this.#telemetry = telemetryOf(config);
    this.#node = node;
    this.#log = logger;
    const { metrics } = this.#telemetry;
    if (!metrics) return;
    this.#ratio = new Histogram({
      name: "reelmesh_render_ratio",
      help: "Seconds of work for one second of video, by kind of job",
      labelNames: ["kind"],
      buckets: [...renderRatioBuckets],
      registers: [metrics.registry],
    });
    metrics.gauge("reelmesh_attempts_running", "Attempts that this node executes", [], (set) =>
      set({}, this.#running),
    );
  }

  /** Runs an attempt as its own work. */
  async run(order: StartOrder, work: () => Promise<ExecutionOutcome>): Promise<ExecutionOutcome> {
    const { jobId, attempt, kind, trace } = order;
    const { tracing } = this.#telemetry;
    const span =
      trace === undefined
        ? undefined
        : tracing?.begin({
            name: `attempt ${kind}`,
            parent: trace,
            kind: "consumer",
            attributes: {
              "job.id": jobId,
              "job.attempt": attempt,
              "job.kind": kind,
              "node.id": this.#node,
            },
          });
    const scope: WorkScope = { jobId, attempt, traceId: span?.traceId, span };
    const spans = tracing && span ? new AttemptSpans(tracing, span, scope) : undefined;
    if (spans) spansOf.set(scope, spans);
    this.#scopes.set(keyText(order), scope);
    withinWork(scope, () => this.#log.info(`attempt ${attempt} of job ${jobId} (${kind}) begins`));
    const begunAt = performance.now();
    let outcome: ExecutionOutcome | undefined;
    this.#running += 1;
    try {
      outcome = await withinWork(scope, work);
      return outcome;
    } finally {
      this.#running -= 1;
      const seconds = ((performance.now() - begunAt) / 1000).toFixed(1);
      const how = outcome?.ok ? "done" : (outcome?.error.type ?? "broken off");
      withinWork(scope, () =>
        this.#log.info(`attempt ${attempt} of job ${jobId}: ${how}, ${seconds} s`),
      );
      spans?.end(outcome);
      if (outcome?.ok) this.#measure(kind, outcome, performance.now() - begunAt);
    }
  }

  /** What is told about an attempt is part of its work, also after its end. */
  within<T>(key: AttemptKey, tell: () => T): T {
    return withinWork(this.#scopes.get(keyText(key)) ?? { ...key }, tell);
  }

  #measure(kind: string, outcome: ExecutionOutcome & { ok: true }, workMs: number): void {
    const { durationMs } = outcome.result.info as { durationMs?: unknown };
    if (typeof durationMs === "number" && durationMs > 0)
      this.#ratio?.observe({ kind }, workMs / durationMs);
  }
}

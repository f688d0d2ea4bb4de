// Loaded only where traces are sent: the SDK costs memory and start-up time.
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, type Tracer, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
  TracerProvider,
  type TracerProviderOptions,
} from "@opentelemetry/sdk-trace";
import packageJson from "../../package.json" with { type: "json" };
import type { Config } from "../config.ts";
import { telemetryLimits } from "./config.ts";
import type { Span, SpanAttributes, SpanStart, Tracing } from "./span.ts";
import { type TraceBudget, takeTrace } from "./trace-budget.policy.ts";
import { parseTraceparent, traceparentText } from "./trace-parent.policy.ts";

type Resource = NonNullable<TracerProviderOptions["resource"]>;

/** What stands beside every span: which product, version and node. */
function resourceOf(node: string): Resource {
  const attributes = {
    "service.name": packageJson.name,
    "service.version": packageJson.version,
    "service.instance.id": node,
  };
  const resource: Resource = {
    attributes,
    asyncAttributesPending: false,
    merge: () => resource,
    getRawAttributes: () => Object.entries(attributes),
  };
  return resource;
}

const kinds = {
  server: SpanKind.SERVER,
  internal: SpanKind.INTERNAL,
  consumer: SpanKind.CONSUMER,
} as const;

/** The exporter with its failures counted, and told at most once in a while. */
class CountingExporter implements SpanExporter {
  exported = 0;
  failed = 0;
  #toldAt = Number.NEGATIVE_INFINITY;
  readonly #inner: SpanExporter;
  readonly #warn: (text: string) => void;

  constructor(inner: SpanExporter, warn: (text: string) => void) {
    this.#inner = inner;
    this.#warn = warn;
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter["export"]>[1]): void {
    this.#inner.export(spans, (result) => {
      if (result.code === 0) this.exported += spans.length;
      else this.#note(spans.length, result.error);
      done(result);
    });
  }

  #note(spans: number, error: Error | undefined): void {
    this.failed += spans;
    const now = performance.now();
    if (now - this.#toldAt < telemetryLimits.failureLogMs) return;
    this.#toldAt = now;
    this.#warn(`traces are not taken by the collector: ${error?.message ?? "no reason given"}`);
  }

  shutdown = () => this.#inner.shutdown();
  forceFlush = () => this.#inner.forceFlush?.() ?? Promise.resolve();
}

const shortened = (attributes: SpanAttributes) =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [
      name,
      typeof value === "string" ? value.slice(0, telemetryLimits.attributeCharsMax) : value,
    ]),
  );

type SdkSpan = ReturnType<Tracer["startSpan"]>;

class RecordedSpan implements Span {
  readonly traceparent: string;
  readonly traceId: string;
  readonly #span: SdkSpan;
  readonly #ended: () => void;

  constructor(span: SdkSpan, ended: () => void) {
    this.#span = span;
    this.#ended = ended;
    const { traceId, spanId } = span.spanContext();
    this.traceId = traceId;
    this.traceparent = traceparentText({ traceId, spanId, sampled: true });
  }

  set(attributes: SpanAttributes): void {
    this.#span.setAttributes(shortened(attributes));
  }

  end(error?: unknown): void {
    if (!this.#span.isRecording()) return;
    if (error !== undefined) {
      const { type, name } = error as { type?: unknown; name?: unknown };
      this.#span.setAttribute("error.type", String(type ?? name ?? "unknown"));
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end();
    this.#ended();
  }
}

/** Sends spans in batches over OTLP/HTTP (JSON) to `OTEL_EXPORTER_OTLP_ENDPOINT`. */
export function openTracing(
  config: Pick<Config, "OTEL_EXPORTER_OTLP_ENDPOINT" | "OTEL_TRACES_SAMPLER_ARG">,
  node: string,
  warn: (text: string) => void,
): Tracing {
  const limits = telemetryLimits;
  const base = (config.OTEL_EXPORTER_OTLP_ENDPOINT ?? "").replace(/\/+$/, "");
  const exporter = new CountingExporter(
    new OTLPTraceExporter({ url: `${base}/v1/traces`, timeoutMillis: limits.exportTimeoutMs }),
    warn,
  );
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: limits.spansQueuedMax,
    maxExportBatchSize: limits.spansPerExportMax,
    scheduledDelayMillis: limits.exportDelayMs,
    exportTimeoutMillis: limits.exportTimeoutMs,
  });
  // Which request is recorded is decided before there is a span: one that is not must cost nothing.
  const provider = new TracerProvider({
    resource: resourceOf(node),
    sampler: new AlwaysOnSampler(),
    spanProcessors: [processor],
  });
  const tracer = provider.getTracer(packageJson.name);
  const rate = { perSecond: limits.tracesPerSecondMax, atOnce: limits.tracesAtOnceMax };
  const budget: TraceBudget = { left: rate.atOnce, at: performance.now() };
  let ended = 0;
  const contextOf = (parent: SpanStart["parent"]) => {
    const above = parseTraceparent(typeof parent === "object" ? parent.traceparent : parent);
    if (!above) return ROOT_CONTEXT;
    const { traceId, spanId } = above;
    return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: 1, isRemote: true });
  };
  return {
    admit(traceparent) {
      const above = traceparent === undefined ? undefined : parseTraceparent(traceparent);
      const share = config.OTEL_TRACES_SAMPLER_ARG;
      // A client's own decision counts, in both directions; without one it is ours.
      if (above ? !above.sampled : share < 1 && Math.random() >= share) return undefined;
      if (!takeTrace(budget, performance.now(), rate)) return undefined;
      return above ? traceparentText(above) : "new";
    },
    begin({ name, parent, kind = "internal", attributes = {} }) {
      const options = { kind: kinds[kind], attributes: shortened(attributes) };
      return new RecordedSpan(tracer.startSpan(name, options, contextOf(parent)), () => {
        ended += 1;
      });
    },
    counts: () => ({ ended, exported: exporter.exported, failed: exporter.failed }),
    async close() {
      let timer: NodeJS.Timeout | undefined;
      const bound = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, limits.closeMsMax);
      });
      await Promise.race([provider.shutdown().catch(() => undefined), bound]);
      clearTimeout(timer);
    },
  };
}

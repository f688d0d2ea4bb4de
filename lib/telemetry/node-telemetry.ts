import type { Config } from "../config.ts";
import type { Metrics } from "./metrics.ts";
import type { Tracing } from "./span.ts";

/** What one node watches itself with. What is switched off is absent, and was not loaded. */
export interface Telemetry {
  metrics?: Metrics;
  tracing?: Tracing;
}

const byNode = new WeakMap<object, Telemetry>();
const nothing: Telemetry = Object.freeze({});

/** Telemetry of the node with this configuration; empty for a broker that was not started as a node. */
export const telemetryOf = (config: object): Telemetry => byNode.get(config) ?? nothing;

export interface OpenTelemetry extends Telemetry {
  /** Tracing speaks to the log of the broker, which is made after it. */
  warnTo(warn: (text: string) => void): void;
  close(): Promise<void>;
}

/** Opens what the configuration asks for. */
export async function openTelemetry(config: Config, node: string): Promise<OpenTelemetry> {
  const telemetry: Telemetry = {};
  let warn = (_text: string): void => undefined;
  if (config.METRICS === "on") {
    const { Metrics } = await import("./metrics.ts");
    telemetry.metrics = new Metrics(node, config.SERVICES);
  }
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined) {
    const { openTracing } = await import("./tracing.ts");
    telemetry.tracing = openTracing(config, node, (text) => warn(text));
  }
  if (telemetry.metrics && telemetry.tracing) countSpans(telemetry.metrics, telemetry.tracing);
  byNode.set(config, telemetry);
  return {
    ...telemetry,
    warnTo: (to) => {
      warn = to;
    },
    async close() {
      byNode.delete(config);
      telemetry.metrics?.close();
      await telemetry.tracing?.close();
    },
  };
}

function countSpans(metrics: Metrics, tracing: Tracing): void {
  metrics.gauge(
    "reelmesh_trace_spans",
    "Spans since the start, by what became of them",
    ["fate"],
    (set) => {
      for (const [fate, count] of Object.entries(tracing.counts())) set({ fate }, count);
    },
  );
}

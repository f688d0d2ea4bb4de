import { afterEach, describe, expect, test } from "@jest/globals";
import { loadConfig } from "../../lib/config.ts";
import { bridgeToken, startTestBridge } from "../support/bridge.ts";
import { endOfJob, startProduct } from "../support/product.ts";
import { startTraceSink } from "../support/trace-sink.ts";
import { until } from "../support/until.ts";

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const { config } = loadConfig({ DATA_DIR: "/nowhere" }, { generate: false });
const METRICS_TOKEN = "token-for-prometheus";

async function startBridge(env: Record<string, string> = {}) {
  const bridge = await startTestBridge({ config }, { NODE_ID: "gpu-host", ...env });
  ends.push(() => bridge.stop());
  return bridge;
}
const metricsOf = async (url: string, headers: Record<string, string> = {}) => {
  const answer = await fetch(`${url}/metrics`, { headers });
  return { status: answer.status, text: await answer.text() };
};

interface Line {
  name: string;
  state: string;
  essential: boolean;
  reason?: string;
}
async function ready(url: string) {
  const answer = await fetch(`${url}/readyz`);
  const body = (await answer.json()) as { status: string; node: string; dependencies: Line[] };
  return { code: answer.status, body, line: (name: string) => lineOf(body.dependencies, name) };
}
const lineOf = (lines: Line[], name: string) => lines.find((one) => one.name === name);

describe("a bridge outside the mesh", () => {
  test("takes part in the trace of a scheduler's job, counts it, and names it in its log", async () => {
    const sink = await startTraceSink();
    ends.push(() => sink.close());
    const bridge = await startBridge({
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
      LOG_FORMAT: "json",
      METRICS_TOKEN,
    });
    const alone = await ready(bridge.url);
    expect(alone).toMatchObject({ code: 200, body: { status: "ok", node: "gpu-host" } });
    expect(alone.body.dependencies.map(({ name }) => name)).toEqual([
      "ffmpeg",
      "own objects",
      "scheduler",
    ]);
    const product = await startProduct({
      SERVICES: "gateway,platform,scheduler",
      NODE_ID: "edge",
      BRIDGE_URL: bridge.url,
      BRIDGE_TOKEN: bridgeToken,
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
    });
    ends.push(() => product.stop());
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
    const { body } = await product.request("POST", "/compose-timeline-ffmpeg", {
      token: bridgeToken,
      headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` },
      body: {
        timeline: { tracks: [{ type: "text", clips: [{ text: "Hi", duration: 0.2 }] }] },
        output: { width: 64, height: 64, fps: 5, quality: "draft" },
      },
    });
    const jobId = body.job_id as string;
    const ask = () => product.request("GET", `/jobs/${jobId}`, { token: bridgeToken });
    expect(await endOfJob(ask)).toMatchObject({ status: "success" });

    const ofBridge = (name: string) =>
      sink.spans.find((span) => span.name === name && span.node === "gpu-host");
    await until(() => ofBridge("attempt timeline") !== undefined, { what: "the attempt's span" });
    expect(ofBridge("attempt timeline")).toMatchObject({
      traceId,
      attributes: { "job.id": jobId, "job.attempt": 1 },
    });
    // The test runs FFmpeg through a script, and a span has the name of its program.
    expect(ofBridge("ffmpeg.sh")).toMatchObject({ traceId, failed: false });
    const submit = sink.spans.find(({ name }) => name === "scheduler.submit");
    expect(ofBridge("attempt timeline")?.parentSpanId).toBe(submit?.spanId);

    const lines = bridge.command
      .text()
      .split("\n")
      .filter((text) => text.startsWith("{") && text.includes(`"jobId":"${jobId}"`))
      .map((text) => JSON.parse(text));
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).toMatchObject({ node: "gpu-host", attempt: 1, traceId });

    const { text } = await metricsOf(bridge.url);
    expect(text).toContain('reelmesh_bridge_attempts_total{outcome="success"} 1');
    expect(text).toContain('reelmesh_bridge_attempts_total{outcome="lease"} 0');
    expect(text).toContain("reelmesh_bridge_fenced_reports_total 0");
    expect(text).toMatch(/reelmesh_bridge_slots\{use="total"\} [1-9]/);
    expect(text).toMatch(/reelmesh_bridge_last_poll_seconds [\d.]/);
    expect(text).toMatch(/reelmesh_event_loop_lag_seconds\{quantile="0.99"\} /);

    const far = { "x-forwarded-for": "198.51.100.7" };
    expect((await metricsOf(bridge.url, far)).status).toBe(403);
    const bearer = (token: string) => ({ ...far, authorization: `Bearer ${token}` });
    expect((await metricsOf(bridge.url, bearer(METRICS_TOKEN))).status).toBe(200);
    expect((await metricsOf(bridge.url, bearer(bridgeToken))).status).toBe(403);

    // Bound to an installation whose scheduler is gone: what it cannot know after a start, it says.
    ends.splice(ends.length - 1);
    await product.stop();
    await bridge.kill();
    await bridge.restart();
    const left = await ready(bridge.url);
    expect(left).toMatchObject({ code: 200, body: { status: "degraded" } });
    expect(left.line("scheduler")).toMatchObject({
      state: "down",
      reason: "its scheduler has not asked since the start of the bridge",
    });
  }, 90_000);

  test("without FFmpeg is not ready, and says why", async () => {
    const bridge = await startBridge({ FFMPEG_PATH: "/no/such/ffmpeg" });
    const { code, line } = await ready(bridge.url);
    expect(code).toBe(503);
    expect(line("ffmpeg")).toMatchObject({ state: "down", essential: true });
    expect(line("ffmpeg")?.reason).toContain("FFMPEG_PATH does not run");
    expect((await bridge.request("GET", "/healthz", undefined, "")).status).toBe(200);
  }, 40_000);
});

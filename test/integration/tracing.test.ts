import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "@jest/globals";
import { systemActor, systemCall } from "../../lib/service.ts";
import { freePort } from "../../scripts/servers/server.ts";
import { type Product, startProduct } from "../support/product.ts";
import { type SeenSpan, startTraceSink, type TraceSink } from "../support/trace-sink.ts";
import { until } from "../support/until.ts";

let sink: TraceSink;
const running: Product[] = [];
afterEach(async () => {
  for (const product of running.splice(0).reverse()) await product.stop();
  await sink?.close();
});

async function start(env: Record<string, string>): Promise<Product> {
  const product = await startProduct({
    OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
    MCP_TOKEN: "token-of-the-agents",
    ...env,
  });
  running.push(product);
  return product;
}

/** A mesh over Moleculer's TCP transporter; the first node is the edge. */
async function mesh(nodes: Record<string, string>): Promise<Record<string, Product>> {
  const names = Object.keys(nodes);
  const ports = await Promise.all(names.map(() => freePort()));
  const places = names.map((name, at) => `127.0.0.1:${ports[at]}/${name}`).join(",");
  const started: Record<string, Product> = {};
  for (const [name, SERVICES] of Object.entries(nodes))
    started[name] = await start({ TRANSPORTER: `tcp://${places}`, NODE_ID: name, SERVICES });
  return started;
}

const called = (name: string) => sink.spans.filter((span) => span.name === name);
const parentOf = (span: SeenSpan | undefined) =>
  sink.spans.find(({ spanId }) => spanId === span?.parentSpanId);
/** Names from a span up to the root of its trace. */
function ancestry(span: SeenSpan | undefined): string[] {
  const names: string[] = [];
  for (let at = parentOf(span); at; at = parentOf(at)) names.push(at.name);
  return names;
}
const arrived = (name: string, count = 1) =>
  until(() => called(name).length >= count, { what: `${count} x span ${name}` });

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER = "00f067aa0ba902b7";
const traceparent = `00-${TRACE}-${CALLER}-01`;

describe("one job over two nodes", () => {
  test("is one trace from the HTTP request to FFmpeg on the other node", async () => {
    sink = await startTraceSink();
    const { edge } = await mesh({ edge: "gateway,platform,scheduler", render: "compose" });
    await until(
      async () => (await systemCall(edge!.broker)("scheduler.nodes", {})).nodes.length === 1,
      { what: "the compose node" },
    );
    const { body } = await edge!.request("POST", "/mcp/tools/call", {
      token: edge!.config.MCP_TOKEN,
      headers: { traceparent },
      body: {
        name: "compose_timeline_ffmpeg",
        arguments: {
          timeline: { tracks: [{ type: "text", clips: [{ text: "Trace", duration: 0.5 }] }] },
          output: { width: 64, height: 96, fps: 10, quality: "draft" },
        },
      },
    });
    const jobId = body.job_id as string;
    // Each node sends its own spans, in its own time.
    await arrived("scheduler.complete");
    await arrived("attempt timeline");
    await arrived("POST /mcp/tools/call");

    expect(new Set(sink.spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
    const [http] = called("POST /mcp/tools/call");
    expect(http).toMatchObject({ node: "edge", parentSpanId: CALLER, failed: false });
    expect(http?.attributes).toMatchObject({
      "http.route": "/mcp/tools/call",
      "http.response.status_code": 200,
    });
    expect(parentOf(called("auth.verify")[0])?.name).toBe("POST /mcp/tools/call");
    const [submit] = called("scheduler.submit");
    expect(submit?.attributes["job.id"]).toBe(jobId);
    expect(ancestry(submit).at(-1)).toBe("POST /mcp/tools/call");

    const [attempt] = called("attempt timeline");
    expect(attempt).toMatchObject({ node: "render", parentSpanId: submit?.spanId });
    expect(attempt?.attributes).toMatchObject({
      "job.id": jobId,
      "job.attempt": 1,
      "node.id": "render",
    });
    const [ffmpeg] = called("ffmpeg");
    expect(ffmpeg).toMatchObject({ node: "render", failed: false });
    expect(ffmpeg?.attributes["process.exit.code"]).toBe(0);
    expect(ancestry(ffmpeg).slice(0, 3)).toEqual([
      "stage render",
      "attempt timeline",
      "scheduler.submit",
    ]);
    const stages = sink.spans.filter(({ name }) => name.startsWith("stage "));
    expect(stages.map(({ name }) => name).sort()).toEqual([
      "stage check",
      "stage fetch",
      "stage render",
      "stage store",
    ]);
    expect(ancestry(called("upload")[0]).slice(0, 2)).toEqual(["stage store", "attempt timeline"]);
    expect(ancestry(called("scheduler.complete")[0])).toContain("attempt timeline");
  });

  test("a second attempt on another node joins the same trace", async () => {
    sink = await startTraceSink();
    const nodes = await mesh({
      edge: "gateway,platform,scheduler",
      one: "compose",
      two: "compose",
    });
    const edge = nodes["edge"]!;
    const call = systemCall(edge.broker);
    await until(async () => (await call("scheduler.nodes", {})).nodes.length === 2, {
      what: "both compose nodes",
    });
    // As a service would that was called over HTTP: the submission hangs under the request's span.
    const { id } = (await edge.broker.call(
      "scheduler.submit",
      { kind: "noop", payload: { ms: 60_000 } },
      { headers: { traceparent }, meta: { actor: systemActor } } as never,
    )) as { id: string };
    const job = () => call("scheduler.get", { id });
    await until(async () => (await job()).progress > 0, { what: "the first attempt" });
    const first = (await job()).node!;
    const second = first === "one" ? "two" : "one";
    running.splice(running.indexOf(nodes[first]!), 1);
    await nodes[first]!.stop();
    await until(async () => (await job()).node === second && (await job()).progress > 0, {
      what: "the second attempt",
    });
    await call("scheduler.cancel", { id });
    await arrived("attempt noop", 2);
    const attempts = called("attempt noop");
    const [submit] = called("scheduler.submit");
    expect(attempts.map(({ node }) => node)).toEqual([first, second]);
    expect(attempts.map(({ attributes }) => attributes["job.attempt"])).toEqual([1, 2]);
    for (const attempt of attempts)
      expect(attempt).toMatchObject({ traceId: TRACE, parentSpanId: submit?.spanId });
  });
});

describe("a job whose whole node is killed", () => {
  const script = fileURLToPath(new URL("../support/product-child.ts", import.meta.url));
  let dir: string | undefined;
  let child: ChildProcess | undefined;
  afterEach(async () => {
    await killed();
    if (dir) await rm(dir, { recursive: true, force: true });
    dir = undefined;
  });

  async function killed(): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  async function startChild(): Promise<void> {
    child = fork(script, {
      execArgv: ["--no-warnings"],
      env: {
        ...process.env,
        DATA_DIR: dir,
        PORT: "0",
        LOG_LEVEL: "fatal",
        OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
      },
    });
    await once(child, "message");
  }

  test("goes on in the same trace after the next start, which has only what was stored", async () => {
    sink = await startTraceSink();
    dir = await mkdtemp(join(tmpdir(), "reelmesh-trace-"));
    const pids = join(dir, "pids");
    await startChild();
    child?.send({
      id: 1,
      action: "scheduler.submit",
      params: { kind: "test-process", payload: {} },
      headers: { traceparent },
    });
    await until(async () => (await readFile(pids, "utf8").catch(() => "")).includes("\n"), {
      what: "the first attempt",
    });
    await arrived("scheduler.submit");
    await killed();
    await writeFile(join(dir, "finish"), "");
    await startChild();
    await arrived("attempt test-process");
    const [submit] = called("scheduler.submit");
    // The first attempt never ended, so that its span was never sent.
    expect(called("attempt test-process")).toEqual([
      expect.objectContaining({ traceId: TRACE, parentSpanId: submit?.spanId, failed: false }),
    ]);
    expect(called("attempt test-process")[0]?.attributes["job.attempt"]).toBe(2);
  }, 40_000);
});

describe("what is recorded", () => {
  test("a request without a traceparent begins a trace, one that says no is not recorded", async () => {
    sink = await startTraceSink();
    const product = await start({});
    await product.request("GET", "/index/", {
      headers: { traceparent: traceparent.replace(/01$/, "00") },
    });
    await product.request("GET", "/index/", { headers: { traceparent: "00-nonsense" } });
    await arrived("GET /index/");
    await arrived("index.home");
    expect(called("GET /index/")).toHaveLength(1);
    expect(called("GET /index/")[0]).toMatchObject({ parentSpanId: "" });
    expect(called("GET /index/")[0]?.traceId).not.toBe(TRACE);
    expect(parentOf(called("index.home")[0])?.name).toBe("GET /index/");
  });

  test("a share of 0 records nothing by itself, and probes are never recorded", async () => {
    sink = await startTraceSink();
    const product = await start({ OTEL_TRACES_SAMPLER_ARG: "0" });
    await product.request("GET", "/index/");
    await product.request("GET", "/healthz", { headers: { traceparent } });
    await product.request("GET", "/index/", { headers: { traceparent } });
    await arrived("GET /index/");
    expect(sink.spans.map(({ name }) => name).sort()).toEqual(["GET /index/", "index.home"]);
  });

  test("two jobs whose work overlaps stay in their own traces", async () => {
    sink = await startTraceSink();
    const product = await start({ RENDER_SLOTS: "2" });
    const call = systemCall(product.broker);
    const other = TRACE.replace("4b", "5c");
    const submit = (traceId: string, ms: number) =>
      product.broker.call("scheduler.submit", { kind: "noop", payload: { ms } }, {
        headers: { traceparent: `00-${traceId}-${CALLER}-01` },
        meta: { actor: systemActor },
      } as never) as Promise<{ id: string }>;
    await until(async () => (await call("scheduler.nodes", {})).nodes.length === 1);
    // More than there are slots: the end of one job starts another, of another trace.
    const jobs = await Promise.all(
      Array.from({ length: 8 }, (_, at) => submit(at % 2 ? TRACE : other, 5)),
    );
    await arrived("attempt noop", 8);
    await arrived("scheduler.complete", 8);
    const traceOf = new Map(jobs.map(({ id }, at) => [id, at % 2 ? TRACE : other]));
    for (const span of called("attempt noop"))
      expect(span.traceId).toBe(traceOf.get(span.attributes["job.id"] as string));
    // Every span of a trace hangs under that trace: what one job's end starts is not a part of it.
    for (const span of sink.spans) {
      const parent = parentOf(span);
      if (parent) expect(parent.traceId).toBe(span.traceId);
    }
    expect(called("compose.begin")).toHaveLength(8);
    for (const span of called("compose.begin"))
      expect(parentOf(span)?.name).toBe("scheduler.submit");
    expect(called("scheduler.heartbeat")).toEqual([]);
  });
});

describe("a collector that fails", () => {
  test("changes nothing for clients, and what it refused is counted", async () => {
    sink = await startTraceSink();
    sink.answerWith(400);
    const product = await start({});
    expect((await product.request("GET", "/index/")).status).toBe(200);
    await until(() => sink.requests() > 0, { what: "an export" });
    await until(
      async () => {
        const { body } = await product.request("GET", "/metrics");
        return /reelmesh_trace_spans\{fate="failed"\} [1-9]/.test(body as string);
      },
      { what: "the count of refused spans" },
    );
    expect((await product.request("GET", "/index/")).status).toBe(200);
  });

  test("that is not there does not hold up the stop", async () => {
    sink = await startTraceSink();
    const { url } = sink;
    await sink.close();
    const product = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: url });
    expect((await product.request("GET", "/index/")).status).toBe(200);
    running.splice(0);
    await product.stop();
  });
});

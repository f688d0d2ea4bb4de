import { afterEach, describe, expect, test } from "@jest/globals";
import { systemCall } from "../../lib/service.ts";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

const running: Product[] = [];
async function start(env: Record<string, string> = {}): Promise<Product> {
  const product = await startProduct(env);
  running.push(product);
  return product;
}
afterEach(async () => {
  for (const product of running.splice(0).reverse()) await product.stop();
});

const scrape = async ({ url }: Product, headers: Record<string, string> = {}) => {
  const response = await fetch(`${url}/metrics`, { headers });
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    text: await response.text(),
  };
};
/** Value of the one line of this name that carries all these labels. */
function value(
  text: string,
  name: string,
  labels: Record<string, string> = {},
): number | undefined {
  const wanted = Object.entries(labels).map(([key, label]) => `${key}="${label}"`);
  const lines = text
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => wanted.every((part) => line.includes(part)));
  if (lines.length > 1) throw new Error(`${lines.length} lines of ${name} ${wanted}`);
  return lines[0] === undefined ? undefined : Number(lines[0].split(" ").at(-1));
}

describe("/metrics", () => {
  test("counts requests under the pattern of their route, never under a path", async () => {
    const product = await start();
    for (let at = 0; at < 30; at++) await product.request("GET", `/jobs/no-such-job-${at}`);
    for (let at = 0; at < 30; at++) await product.request("GET", `/nowhere/${at}`);
    await product.request("GET", "/index/");
    const { status, type, text } = await scrape(product);
    expect(status).toBe(200);
    expect(type).toContain("text/plain");
    const count = "reelmesh_http_request_seconds_count";
    expect(value(text, count, { route: "/jobs/{job_id}", method: "GET", status: "4xx" })).toBe(30);
    expect(value(text, count, { route: "(none)", status: "4xx" })).toBe(30);
    expect(value(text, count, { route: "/index/", status: "2xx" })).toBe(1);
    expect(text).not.toContain("no-such-job");
    expect(text).not.toContain("/nowhere");
    expect(
      value(text, "reelmesh_action_seconds_count", { action: "index.home", outcome: "ok" }),
    ).toBe(1);
  });

  test("tells of the process: event loop, memory, processor", async () => {
    const product = await start();
    const { text } = await scrape(product);
    expect(
      value(text, "reelmesh_event_loop_lag_seconds", { quantile: "0.99" }),
    ).toBeGreaterThanOrEqual(0);
    expect(value(text, "process_memory_bytes", { kind: "rss" })).toBeGreaterThan(1e6);
    expect(value(text, "process_cpu_seconds_total", { mode: "user" })).toBeGreaterThan(0);
  });

  test("every line is in Prometheus' text form, each name declared once", async () => {
    const product = await start();
    await product.request("GET", "/index/");
    const { text } = await scrape(product);
    const kinds = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name]) => name);
    expect(new Set(kinds).size).toBe(kinds.length);
    const sample =
      /^[a-zA-Z_:][\w:]*(\{([a-z_]+="(?:[^"\\\n]|\\.)*",?)*\})? (-?[\d.e+-]+|NaN|[+-]Inf)$/;
    const odd = text
      .split("\n")
      .filter((line) => line && !line.startsWith("#") && !sample.test(line));
    expect(odd).toEqual([]);
  });

  test("is closed to what a proxy hands on, whatever address that names", async () => {
    const product = await start();
    expect((await scrape(product, { "x-forwarded-for": "127.0.0.1" })).status).toBe(403);
    expect((await scrape(product, { forwarded: "for=127.0.0.1" })).status).toBe(403);
  });

  test("is open to the bearer of METRICS_TOKEN, and to no other bearer", async () => {
    const product = await start({ METRICS_TOKEN: "token-for-prometheus" });
    const from = (token: string) =>
      scrape(product, { authorization: `Bearer ${token}`, "x-forwarded-for": "198.51.100.7" });
    expect((await from("token-for-prometheus")).status).toBe(200);
    expect((await from("token-for-prometheu")).status).toBe(403);
    expect((await from(product.config.MCP_TOKEN)).status).toBe(403);
  });

  test("METRICS=off answers 404 and collects nothing", async () => {
    const product = await start({ METRICS: "off" });
    expect((await scrape(product)).status).toBe(404);
  });
});

describe("numbers of the jobs", () => {
  test("follow a job from its acceptance to its end, by queue and band of priority", async () => {
    const product = await start();
    const call = systemCall(product.broker);
    const ended = async (id: string) =>
      (await call("scheduler.get", { id })).state !== "pending" &&
      (await call("scheduler.get", { id })).state !== "running";
    const submit = (queue: string, payload: object, priority = 50) =>
      call("scheduler.submit", {
        kind: "noop",
        owner: "test",
        queue,
        priority,
        payload: { ...payload },
      });
    const done = await submit("films", { ms: 1 }, 10);
    await until(() => ended(done.id), { what: "the end of the job" });
    await call("scheduler.pause", { queue: "later" });
    await submit("later", {}, 10);
    await submit("later", {}, 90);
    const { text } = await scrape(product);
    const jobs = "reelmesh_jobs_total";
    expect(value(text, jobs, { queue: "films", event: "accepted" })).toBe(1);
    expect(value(text, jobs, { queue: "films", event: "success" })).toBe(1);
    expect(value(text, "reelmesh_attempts_total", { queue: "films", outcome: "started" })).toBe(1);
    expect(value(text, "reelmesh_attempts_total", { queue: "films", outcome: "success" })).toBe(1);
    expect(value(text, "reelmesh_job_wait_seconds_count", { queue: "films" })).toBe(1);
    expect(
      value(text, "reelmesh_job_run_seconds_count", { kind: "noop", outcome: "success" }),
    ).toBe(1);
    expect(
      value(text, "reelmesh_queue_jobs", { queue: "later", state: "pending", band: "1-20" }),
    ).toBe(1);
    expect(
      value(text, "reelmesh_queue_jobs", { queue: "later", state: "pending", band: "81-100" }),
    ).toBe(1);
    expect(
      value(text, "reelmesh_queue_jobs", { queue: "films", state: "running", band: "1-20" }),
    ).toBeUndefined();
    expect(value(text, "reelmesh_outbox_entries")).toBe(0);
    expect(value(text, "reelmesh_scheduler_leader")).toBe(1);
    const node = product.broker.nodeID;
    expect(value(text, "reelmesh_compose_node", { node, what: "slots" })).toBe(
      product.config.RENDER_SLOTS,
    );
    expect(value(text, "reelmesh_compose_node", { node, what: "memory_percent" })).toBeGreaterThan(
      0,
    );
  });
});

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { type Context, ServiceBroker } from "moleculer";
import { brokerOptions } from "../../lib/broker-options.ts";
import { loadConfig } from "../../lib/config.ts";
import { JsonLogger } from "../../lib/telemetry/json-logs.ts";
import { telemetryMiddleware } from "../../lib/telemetry/telemetry.middleware.ts";
import { outsideWork, withinWork } from "../../lib/telemetry/work-scope.ts";
import { type Command, runScript } from "../support/command.ts";
import { startTraceSink } from "../support/trace-sink.ts";
import { until } from "../support/until.ts";

interface Line extends Record<string, unknown> {
  time: string;
  level: string;
  node: string;
  service: string;
  msg: string;
}

let dir: string;
const ends: (() => unknown)[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-logs-"));
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
  await rm(dir, { recursive: true, force: true });
});

const parsed = (text: string): Line[] =>
  text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);

function startCommand(env: Record<string, string>): Command {
  const command = runScript("start", { env: { PORT: "0", DATA_DIR: dir, ...env } });
  ends.push(async () => {
    command.child.kill("SIGTERM");
    await command.ended;
  });
  return command;
}

describe("the product with LOG_FORMAT=json", () => {
  test("writes nothing but JSON objects, one a line, and no secret", async () => {
    const product = startCommand({ LOG_FORMAT: "json", LOG_LEVEL: "info", NODE_ID: "logged" });
    const [, port] = await product.until(/"msg":"[^"]*serves http:\/\/127\.0\.0\.1:(\d+)/);
    const url = `http://127.0.0.1:${port}`;
    const { config } = loadConfig({ DATA_DIR: dir });
    const link = "/objects/reelmesh/x.mp4?expires=99999999999&signature=c2VjcmV0LXNpZ25hdHVyZQ";
    await fetch(`${url}${link}`).then((answer) => answer.text());
    await fetch(`${url}/mcp/tools`, {
      headers: {
        authorization: `Bearer ${config.MCP_TOKEN}`,
        "x-request-id": "request-of-the-test",
      },
    }).then((answer) => answer.text());
    await product.until(/request-of-the-test/);
    product.child.kill("SIGTERM");
    expect(await product.ended).toBe(0);
    const lines = parsed(product.text());
    for (const line of lines) {
      expect(Object.keys(line)).toEqual(expect.arrayContaining(["time", "level", "node", "msg"]));
      expect(Number.isNaN(Date.parse(line.time))).toBe(false);
      expect(["fatal", "error", "warn", "info"]).toContain(line.level);
      expect(line.node).toBe("logged");
    }
    expect(
      lines.some(({ service, msg }) => service === "gateway" && msg.includes("/mcp/tools 200")),
    ).toBe(true);
    for (const secret of [
      config.MCP_TOKEN,
      config.ADMIN_PASSWORD,
      config.STORAGE_SECRET,
      "c2VjcmV0LXNpZ25hdHVyZQ",
    ])
      expect(product.text()).not.toContain(secret);
  });

  test("text stays the default, with the welcome for people", async () => {
    const product = startCommand({});
    await product.until(/Administrator {6}admin/);
    expect(product.text()).toContain("MCP client configuration");
  });
});

/** A broker whose lines are kept, with one service that logs. */
async function logging(
  act: (ctx: Context & { service: { logger: typeof console } }) => unknown,
  env = {},
) {
  const lines: string[] = [];
  const { config } = loadConfig({ DATA_DIR: dir, LOG_LEVEL: "debug", NODE_ID: "here", ...env });
  const broker = new ServiceBroker({
    ...brokerOptions(config),
    logger: new JsonLogger({
      level: "info",
      secrets: ["known-secret-value"],
      write: (line) => lines.push(line),
    }) as never,
    middlewares: [telemetryMiddleware({}, { bindLogs: true })],
  });
  broker.createService({ name: "worker", actions: { act: { handler: act as never } } });
  await broker.start();
  ends.push(() => broker.stop());
  // What Moleculer says of its own start is not meant here.
  lines.length = 0;
  const said = () =>
    lines.map((line) => JSON.parse(line) as Line).filter(({ service }) => service === "worker");
  return { broker, said };
}

describe("what a line holds", () => {
  test("carries the job and the request that its action is about, also after something was awaited", async () => {
    const { broker, said } = await logging(async (ctx) => {
      await new Promise((resolve) => setImmediate(resolve));
      ctx.service.logger.info("half way");
    });
    await broker.call("worker.act", { jobId: "j1", attempt: 2 }, { requestID: "r1" });
    expect(said()).toEqual([
      expect.objectContaining({
        level: "info",
        node: "here",
        service: "worker",
        msg: "half way",
        jobId: "j1",
        attempt: 2,
        requestId: "r1",
      }),
    ]);
  });

  test("of two attempts at the same time carries each its own, and none outside of them", async () => {
    const { broker, said } = await logging(() => undefined);
    const logger = broker.getLocalService("worker").logger;
    const attempt = (jobId: string) =>
      withinWork({ jobId, attempt: 1 }, async () => {
        await new Promise((resolve) => setImmediate(resolve));
        logger.warn(`of ${jobId}`);
        outsideWork(() => logger.warn(`outside ${jobId}`));
      });
    await Promise.all([attempt("a"), attempt("b")]);
    for (const line of said()) {
      const [word, id] = line.msg.split(" ");
      expect(line["jobId"]).toBe(word === "of" ? id : undefined);
    }
    expect(said()).toHaveLength(4);
  });

  test("hides secrets in texts, fields and errors, whatever carries them", async () => {
    const { broker, said } = await logging(() => undefined);
    const { logger } = broker.getLocalService("worker");
    const error = new Error("GET https://u:hunter2@host/x?X-Amz-Signature=abcdef0123 failed");
    Object.assign(error, { data: { headers: { authorization: "Bearer in-an-error" } } });
    logger.error("call failed with Bearer tok-123.456", error, {
      password: "pw-in-a-field",
      nested: [{ apiKey: "key-in-a-list", note: "has known-secret-value inside" }],
      plain: "stays",
    });
    const text = JSON.stringify(said());
    for (const secret of [
      "hunter2",
      "abcdef0123",
      "in-an-error",
      "tok-123.456",
      "pw-in-a-field",
      "key-in-a-list",
      "known-secret-value",
    ])
      expect(text).not.toContain(secret);
    expect(said()[0]).toMatchObject({
      level: "error",
      err: { name: "Error", message: expect.stringContaining("failed") },
      data: { plain: "stays" },
    });
  });

  test("survives what cannot be written as JSON", async () => {
    const { broker, said } = await logging(() => undefined);
    const { logger } = broker.getLocalService("worker");
    const circle: Record<string, unknown> = { big: 10n, bytes: new Uint8Array(5) };
    circle["self"] = circle;
    logger.info("odd", circle, undefined, null, Symbol("s"));
    expect(said()[0]).toMatchObject({ msg: expect.stringContaining("odd"), data: { big: "10" } });
  });
});

describe("a traced job on a node of its own process", () => {
  test("its attempt's lines carry job, attempt, node and trace", async () => {
    const sink = await startTraceSink();
    ends.push(() => sink.close());
    const product = startCommand({
      LOG_FORMAT: "json",
      LOG_LEVEL: "info",
      NODE_ID: "logged",
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
      MCP_TOKEN: "token-of-the-agents",
    });
    const [, port] = await product.until(/serves http:\/\/127\.0\.0\.1:(\d+)/);
    const answer = await fetch(`http://127.0.0.1:${port}/mcp/tools/call`, {
      method: "POST",
      headers: { authorization: "Bearer token-of-the-agents", "content-type": "application/json" },
      body: JSON.stringify({
        name: "compose_timeline_ffmpeg",
        arguments: {
          timeline: { tracks: [{ type: "text", clips: [{ text: "Log", duration: 0.5 }] }] },
          output: { width: 64, height: 96, fps: 10, quality: "draft" },
        },
      }),
    });
    const { job_id: jobId } = (await answer.json()) as { job_id: string };
    const aboutJob = () =>
      parsed(product.text()).filter(
        (line) => line["jobId"] === jobId && line.service === "compose",
      );
    await until(() => aboutJob().length >= 2, { what: "lines of the attempt" });
    await until(() => sink.spans.some(({ name }) => name === "attempt timeline"), {
      what: "the span of the attempt",
    });
    const { traceId } = sink.spans.find(({ name }) => name === "attempt timeline")!;
    for (const line of aboutJob())
      expect(line).toMatchObject({ attempt: 1, node: "logged", traceId });
  });
});

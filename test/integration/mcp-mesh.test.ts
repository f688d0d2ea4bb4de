import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { systemCall } from "../../lib/service.ts";
import { freePort } from "../../scripts/servers/server.ts";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

let edge: Product;
let worker: Product;
const token = "token-of-the-agents";

beforeAll(async () => {
  const [first, second] = [await freePort(), await freePort()];
  const TRANSPORTER = `tcp://127.0.0.1:${first}/worker,127.0.0.1:${second}/edge`;
  const shared = { TRANSPORTER, MCP_TOKEN: token };
  worker = await startProduct({
    ...shared,
    NODE_ID: "worker",
    SERVICES: "platform,scheduler,compose",
  });
  edge = await startProduct({ ...shared, NODE_ID: "edge", SERVICES: "gateway" });
  await edge.broker.waitForServices(["mcp", "tools", "auth", "scheduler"], 10_000, 50);
});
afterAll(async () => {
  await edge?.stop();
  await worker?.stop();
});

describe("a gateway whose tools run on another node", () => {
  test("progress reaches the agent, and giving up reaches the tool", async () => {
    const client = new Client({ name: "test", version: "1" });
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${edge.url}/mcp`), {
        requestInit: { headers: { authorization: `Bearer ${token}` } },
      }),
    );
    const submit = (ms: number) =>
      systemCall(worker.broker)("scheduler.submit", {
        kind: "noop",
        payload: { ms },
        owner: "agent:mcp-token",
      });
    const short = await submit(600);
    const seen: string[] = [];
    const { structuredContent } = await client.callTool(
      { name: "jobs_wait", arguments: { job_id: short.id, timeout_seconds: 10 } },
      { onprogress: ({ message }) => seen.push(message ?? "") },
    );
    expect(structuredContent).toMatchObject({ ended: true, status: "success" });
    expect(seen.at(-1)).toContain("success");

    const long = await submit(60_000);
    const heard: unknown[] = [];
    worker.broker.createService({
      name: "test-listener",
      events: { "mcp.cancelled": { handler: (ctx: unknown) => void heard.push(ctx) } },
    } as never);
    const controller = new AbortController();
    const waiting = client.callTool(
      { name: "jobs_wait", arguments: { job_id: long.id, timeout_seconds: 60 } },
      { signal: controller.signal, onprogress: () => controller.abort() },
    );
    await expect(waiting).rejects.toThrow();
    await until(() => heard.length > 0);
    await systemCall(worker.broker)("scheduler.cancel", { id: long.id });
    await client.close();
  });
});

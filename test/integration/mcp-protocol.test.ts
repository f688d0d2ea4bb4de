import { request } from "node:http";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { Context, ServiceSchema } from "moleculer";
import { systemCall } from "../../lib/service.ts";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

let product: Product;
beforeAll(async () => {
  product = await startProduct();
  product.broker.createService({
    name: "test-listener",
    events: {
      "mcp.cancelled": {
        handler: (ctx: Context<{ callId: string }>) => void cancelled.push(ctx.params.callId),
      },
    },
  } as ServiceSchema);
});
afterAll(() => product.stop());

const open: Client[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((client) => client.close()));
});

type Era = "2026-07-28" | "older";

async function connect(era: Era, token = product.config.MCP_TOKEN): Promise<Client> {
  const client = new Client(
    { name: "test", version: "1" },
    era === "older" ? {} : { versionNegotiation: { mode: { pin: era } } },
  );
  const transport = new StreamableHTTPClientTransport(new URL(`${product.url}/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  });
  await client.connect(transport);
  open.push(client);
  return client;
}

/** Ids of the calls that the edge has told the mesh to give up. */
const cancelled: string[] = [];

const noop = (ms: number, owner = "agent:mcp-token") =>
  systemCall(product.broker)("scheduler.submit", { kind: "noop", payload: { ms }, owner });

describe.each<Era>(["2026-07-28", "older"])("protocol, client of revision %s", (era) => {
  test("the client is told who serves it and how to work, and finds the same tools as the plain form", async () => {
    const client = await connect(era);
    expect(client.getServerVersion()?.name).toBe("reelmesh");
    expect(client.getInstructions()).toContain("reelmesh://guide/timeline");
    const { tools } = await client.listTools();
    const plain = await product.request("GET", "/mcp/tools", { token: product.config.MCP_TOKEN });
    expect(tools.map(({ name }) => name)).toEqual(
      plain.body.tools.map(({ name }: { name: string }) => name),
    );
  });

  test("a result carries data that fits the schema of the tool", async () => {
    const client = await connect(era);
    // The client checks structured content against the tool's output schema once it knows the tools.
    await client.listTools();
    const { id } = await noop(0);
    const result = await client.callTool({
      name: "jobs_wait",
      arguments: { job_id: id, timeout_seconds: 10 },
    });
    expect(result.isError).toBeFalsy();
    expect(result.structuredContent).toMatchObject({ job_id: id, status: "success", ended: true });
  });

  test("waiting for a job reports progress on the way", async () => {
    const client = await connect(era);
    const { id } = await noop(600);
    const seen: string[] = [];
    const result = await client.callTool(
      { name: "jobs_wait", arguments: { job_id: id, timeout_seconds: 10 } },
      {
        onprogress: ({ progress, total, message }) => seen.push(`${progress}/${total} ${message}`),
      },
    );
    expect(result.structuredContent).toMatchObject({ ended: true });
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.at(-1)).toContain("1/1 success");
  });

  test("a call that is given up ends, and the server goes on serving", async () => {
    const client = await connect(era);
    const { id } = await noop(60_000);
    const controller = new AbortController();
    const heard = cancelled.length;
    const waiting = client.callTool(
      { name: "jobs_wait", arguments: { job_id: id, timeout_seconds: 60 } },
      { signal: controller.signal, onprogress: () => controller.abort() },
    );
    await expect(waiting).rejects.toThrow();
    await until(() => cancelled.length > heard);
    const stopped = await client.callTool({ name: "jobs_cancel", arguments: { job_id: id } });
    expect(stopped.structuredContent).toMatchObject({ status: "cancelled" });
  });

  test("a wrong argument is a tool error that names the path, not a failure of the protocol", async () => {
    const client = await connect(era);
    const result = await client.callTool({
      name: "compose_timeline_ffmpeg",
      arguments: { timeline: { tracks: [{ type: "vidio", clips: [] }] } },
    });
    expect(result.isError).toBe(true);
    const [content] = result.content as { text: string }[];
    expect(content!.text).toContain("timeline.tracks[0].type: must be one of video, overlay");
    expect(content!.text).toContain('did you mean "video"');
  });

  test("resources and prompts are listed and read; one that is not there is an error with the right forms", async () => {
    const client = await connect(era);
    const { id } = await noop(0);
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual(
      expect.arrayContaining(["reelmesh://guide/timeline", `reelmesh://jobs/${id}`]),
    );
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toContain(
      "reelmesh://storyboards/{id}",
    );
    const { contents } = await client.readResource({ uri: `reelmesh://jobs/${id}` });
    expect(JSON.parse((contents[0] as { text: string }).text)).toMatchObject({ job_id: id });
    await expect(client.readResource({ uri: "reelmesh://nope" })).rejects.toThrow(
      /reelmesh:\/\/jobs\/\{id\}/,
    );
    const { prompts } = await client.listPrompts();
    expect(prompts.map(({ name }) => name)).toContain("edit_video");
    const { messages } = await client.getPrompt({
      name: "edit_video",
      arguments: { job_id: id, changes: "brighter" },
    });
    expect((messages[0]!.content as { text: string }).text).toContain(id);
  });
});

describe("a tool that is given up", () => {
  test("stops waiting at once, wherever it runs, when the mesh hears of it", async () => {
    const { id } = await noop(60_000);
    const call = systemCall(product.broker);
    const waiting = call(
      "tools.wait",
      { job_id: id, timeout_seconds: 60 },
      { meta: { mcpCallId: "call-1" } },
    );
    const news: unknown[] = [];
    const other = call("tools.wait", { job_id: id, timeout_seconds: 0 });
    expect(await other).toMatchObject({ ended: false });
    product.broker.broadcast("mcp.cancelled", { callId: "another" });
    product.broker.broadcast("mcp.cancelled", { callId: "call-1" });
    news.push(await waiting);
    expect(news).toMatchObject([{ job_id: id, ended: false }]);
    await call("scheduler.cancel", { id });
  });
});

describe("who may speak the protocol", () => {
  /** A request with headers that fetch would not let through. */
  const post = (headers: Record<string, string>) =>
    new Promise<{ status: number; body: string }>((resolve, reject) => {
      const { hostname, port } = new URL(product.url);
      const req = request(
        {
          hostname,
          port,
          path: "/mcp",
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
        },
        (res) => {
          let body = "";
          res.setEncoding("utf8").on("data", (text) => {
            body += text;
          });
          res.on("end", () => resolve({ status: res.statusCode ?? 0, body }));
        },
      );
      req.on("error", reject);
      req.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }));
    });
  const authorization = () => ({ authorization: `Bearer ${product.config.MCP_TOKEN}` });

  test("no token, a wrong one and the bridge's are refused", async () => {
    expect((await post({})).status).toBe(401);
    expect((await post({ authorization: "Bearer wrong" })).status).toBe(401);
    expect((await post({ authorization: `Bearer ${product.config.BRIDGE_TOKEN}` })).status).toBe(
      403,
    );
    await expect(connect("older", "wrong-token")).rejects.toThrow();
  });

  test("a page that made its name point here is refused by Host and by Origin", async () => {
    const accept = "application/json, text/event-stream";
    const rebound = await post({ ...authorization(), accept, host: "evil.example:80" });
    expect(rebound.status).toBe(403);
    const page = await post({ ...authorization(), accept, origin: "https://evil.example" });
    expect(page.status).toBe(403);
    const own = await post({ ...authorization(), accept, origin: product.url });
    expect(own.status).toBe(200);
  });

  test("sessions are not kept: GET and DELETE say so", async () => {
    for (const method of ["GET", "DELETE"]) {
      const { status } = await product.request(method, "/mcp", {
        token: product.config.MCP_TOKEN,
        headers: { accept: "text/event-stream" },
      });
      expect(status).toBe(405);
    }
  });
});

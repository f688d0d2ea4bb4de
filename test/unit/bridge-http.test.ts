import { createServer, type RequestListener, type Server } from "node:http";
import { afterEach, describe, expect, test } from "@jest/globals";
import { BridgeHttp } from "../../services/scheduler/bridge-http.ts";
import { bridgeLimits } from "../../services/scheduler/config.ts";

const servers: Server[] = [];
const clients: BridgeHttp[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function bridgeThat(listener: RequestListener, limits = bridgeLimits): Promise<BridgeHttp> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const given = { token: "the-token-of-it", installation: "installation-1" };
  const client = new BridgeHttp(`http://127.0.0.1:${port}/`, given, limits);
  clients.push(client);
  return client;
}

const answering =
  (status: number, body: unknown): RequestListener =>
  (_req, res) => {
    res.writeHead(status, { "content-type": "application/json" });
    res.end(typeof body === "string" ? body : JSON.stringify(body));
  };

const jobId = "01a80000-0000-7000-8000-000000000001";
const order = {
  kind: "timeline",
  payload: { timeline: {}, output: { width: 64 } },
  attempt: {
    job_id: jobId,
    number: 2,
    lease_ms: 20_000,
    boot: "boot-1",
    owner: "t:t",
    bucket: "reelmesh",
    inputs: [],
  },
};

describe("requests to a bridge", () => {
  test.each([
    [404, { error: "no such route" }],
    [200, { queue: 0, status: "idle" }],
    [200, "<html>"],
  ])(
    "a server that is no bridge with leases (status %d) is named as such and gets no order",
    async (status, body) => {
      const client = await bridgeThat(answering(status, body));
      await expect(client.status({ wait_ms: 0 })).rejects.toThrow(
        /no bridge of this version that keeps leases/,
      );
    },
  );

  test("a bridge with another token is told from one that is away", async () => {
    const client = await bridgeThat(answering(401, {}));
    await expect(client.status({ wait_ms: 0 })).rejects.toThrow(
      /refuses our token; set BRIDGE_TOKEN/,
    );
    const closed = new BridgeHttp("http://127.0.0.1:9", { token: "x", installation: "y" });
    clients.push(closed);
    await expect(closed.status({ wait_ms: 0 })).rejects.toThrow(/no answer/);
  });

  test("an order carries the task as documented, the attempt beside it, and who sends it", async () => {
    let seen: { url?: string; headers?: Record<string, unknown>; body?: unknown } = {};
    const client = await bridgeThat((req, res) => {
      const chunks: Buffer[] = [];
      req.on("data", (chunk) => chunks.push(chunk));
      req.on("end", () => {
        const body = JSON.parse(Buffer.concat(chunks).toString());
        seen = { url: req.url, headers: req.headers, body };
        answering(200, {
          job_id: jobId,
          status: "running",
          repeated: true,
          attempt: { number: 2, boot: "boot-1" },
        })(req, res);
      });
    });
    expect(await client.begin(order)).toEqual({ outcome: "duplicate" });
    expect(seen.url).toBe("/compose-timeline-ffmpeg");
    expect(seen.body).toEqual({ ...order.payload, attempt: order.attempt });
    expect(seen.headers).toMatchObject({
      authorization: "Bearer the-token-of-it",
      "x-reelmesh-installation": "installation-1",
    });
  });

  test("a bridge that takes the task but says nothing of the attempt has not taken it", async () => {
    const client = await bridgeThat(answering(200, { job_id: jobId, status: "pending" }));
    await expect(client.begin(order)).rejects.toThrow(/status 200/);
    const other = await bridgeThat(
      answering(200, {
        job_id: jobId,
        status: "running",
        repeated: false,
        attempt: { number: 1, boot: "boot-1" },
      }),
    );
    await expect(other.begin(order)).rejects.toThrow(/another attempt/);
  });

  test("a refusal is a refusal, an error inside is unknown", async () => {
    const refusing = await bridgeThat(
      answering(400, { error: { type: "INVALID_INPUT", message: "attempt: wrong" } }),
    );
    expect(await refusing.begin(order)).toEqual({
      outcome: "refused",
      reason: "it answers with status 400: attempt: wrong",
    });
    const broken = await bridgeThat(answering(500, {}));
    await expect(broken.begin(order)).rejects.toThrow(/status 500/);
  });

  test("an answer without end is not read to the end", async () => {
    const client = await bridgeThat(
      (_req, res) => {
        res.writeHead(200);
        const more = () => {
          while (!res.destroyed && res.write(Buffer.alloc(65_536, 32)));
          if (!res.destroyed) res.once("drain", more);
        };
        more();
      },
      { ...bridgeLimits, answerBytesMax: 200_000 },
    );
    await expect(client.status({ wait_ms: 0 })).rejects.toThrow(/longer than 200000 bytes/);
  });

  test("a redirect is not followed: the token is for the one address", async () => {
    let asked = 0;
    const client = await bridgeThat((req, res) => {
      asked += 1;
      res.writeHead(307, { location: `http://${req.headers.host}/elsewhere` }).end();
    });
    await expect(client.status({ wait_ms: 0 })).rejects.toThrow(/GET \/status: 307/);
    expect(asked).toBe(1);
  });
});

import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "@jest/globals";
import { ConfigError } from "../../lib/config.ts";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { freePort } from "../../scripts/servers/server.ts";
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

interface Line {
  name: string;
  state: string;
  essential: boolean;
  since: string;
  affects?: string[];
  reason?: string;
  leader?: { role: string; holder: string; term: number };
}
const read = async (url: string) => {
  const response = await fetch(url);
  const body = (await response.json()) as { status: string; dependencies: Line[] };
  return { status: response.status, body };
};
const line = (report: { dependencies: Line[] }, name: string) =>
  report.dependencies.find((one) => one.name === name);

/** Waits out the time for which an answer is kept. */
const readyWhen = async (
  url: string,
  holds: (body: { status: string; dependencies: Line[] }) => boolean,
) => {
  let last = await read(`${url}/readyz`);
  await until(
    async () => {
      last = await read(`${url}/readyz`);
      return holds(last.body);
    },
    { what: "the expected report" },
  );
  return last;
};

describe("a node that hosts everything", () => {
  test("is ready once its parts are, and names each with since when", async () => {
    const { url } = await start();
    const { status, body } = await readyWhen(url, (report) => report.status === "ok");
    expect(status).toBe(200);
    expect(body.dependencies.map(({ name }) => name)).toEqual([
      "messaging",
      "sign-in",
      "records",
      "objects",
      "scheduler",
      "scheduler leader",
      "compose nodes",
    ]);
    expect(line(body, "scheduler leader")?.leader).toMatchObject({ role: "leader" });
    for (const one of body.dependencies) {
      expect(one.state).toBe("ok");
      expect(one.affects).toBeUndefined();
      expect(Number.isNaN(Date.parse(one.since))).toBe(false);
    }
  });

  test("a server that its user reports away degrades it, with what does not work", async () => {
    const product = await start();
    const redis = dependenciesOf(product.config).declare("redis", {
      degrades: "limits count per gateway",
    });
    redis.up();
    const before = await readyWhen(product.url, (report) => line(report, "redis")?.state === "ok");
    expect(before.body.status).not.toBe("down");
    redis.down("connection refused");
    const { status, body } = await readyWhen(
      product.url,
      (report) => line(report, "redis")?.state === "down",
    );
    expect(status).toBe(200);
    expect(body.status).toBe("degraded");
    expect(line(body, "redis")).toMatchObject({
      essential: false,
      affects: ["limits count per gateway"],
      reason: "connection refused",
    });
  });

  test("an essential one that is away answers 503 with the same body", async () => {
    const product = await start();
    dependenciesOf(product.config)
      .declare("mongodb", { degrades: "no record can be read", essential: true })
      .down("no primary");
    const { status, body } = await readyWhen(product.url, (report) => report.status === "down");
    expect(status).toBe(503);
    expect(line(body, "mongodb")).toMatchObject({ state: "down", essential: true });
    expect(line(body, "records")?.state).toBe("ok");
    expect((await fetch(`${product.url}/healthz`)).status).toBe(200);
  });

  test("a thousand probes at once cost one look", async () => {
    const product = await start();
    let looks = 0;
    const { broker } = product;
    const call = broker.call.bind(broker);
    broker.call = ((name: string, params: object, options: object) => {
      if (name === "scheduler.nodes") looks += 1;
      return call(name, params, options);
    }) as typeof broker.call;
    const answers = await Promise.all(
      Array.from({ length: 1_000 }, () => fetch(`${product.url}/readyz`).then((r) => r.text())),
    );
    expect(answers).toHaveLength(1_000);
    // The answers may span more than one of the seconds for which one is kept, never one look each.
    expect(looks).toBeLessThan(20);
  });

  test("probes need no token, and a wrong one does not matter", async () => {
    const { url } = await start();
    for (const path of ["/healthz", "/readyz"]) {
      const answer = await fetch(`${url}${path}`, { headers: { authorization: "Bearer nobody" } });
      expect(answer.status).not.toBe(401);
      await answer.text();
    }
  });
});

describe("a gateway alone in the mesh", () => {
  test("is not ready until a platform node is there, then names what is still missing", async () => {
    const [first, second] = [await freePort(), await freePort()];
    const TRANSPORTER = `tcp://127.0.0.1:${first}/edge,127.0.0.1:${second}/worker`;
    const edge = await start({ TRANSPORTER, NODE_ID: "edge", SERVICES: "gateway" });
    const alone = await read(`${edge.url}/readyz`);
    expect(alone.status).toBe(503);
    expect(line(alone.body, "sign-in")).toMatchObject({ state: "down", essential: true });
    await start({ TRANSPORTER, NODE_ID: "worker", SERVICES: "platform" });
    const { status, body } = await readyWhen(edge.url, (report) => report.status === "degraded");
    expect(status).toBe(200);
    expect(line(body, "records")?.state).toBe("ok");
    expect(line(body, "scheduler")).toMatchObject({
      state: "down",
      affects: ["no job is accepted, started or ended"],
    });
    expect(line(body, "scheduler leader")).toMatchObject({
      state: "degraded",
      reason: "no scheduler node says who leads",
      affects: ["jobs wait until another node leads"],
    });
  });
});

describe("a node without gateway", () => {
  test("answers probes and Prometheus on HEALTH_PORT, and nothing else", async () => {
    const port = await freePort();
    const mesh = await freePort();
    await start({
      TRANSPORTER: `tcp://127.0.0.1:${mesh}/compute`,
      NODE_ID: "compute",
      SERVICES: "scheduler,compose",
      HEALTH_PORT: String(port),
    });
    const base = `http://127.0.0.1:${port}`;
    expect((await fetch(`${base}/healthz`)).status).toBe(200);
    const { body } = await readyWhen(base, (report) => line(report, "scheduler")?.state === "ok");
    expect(body.dependencies.map(({ name }) => name)).not.toContain("sign-in");
    expect(await (await fetch(`${base}/metrics`)).text()).toContain("reelmesh_node_info");
    expect((await fetch(`${base}/auth/admin/login`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${base}/healthz`, { method: "POST" })).status).toBe(405);
  });

  test("says in one sentence that the port is taken, and leaves nothing open", async () => {
    const first = await start();
    const { port } = first.address!;
    const dir = join(first.config.DATA_DIR, "second");
    await mkdir(dir);
    await writeFile(join(dir, "keep"), "");
    const failed = startProduct({ HEALTH_PORT: String(port), DATA_DIR: dir });
    await expect(failed).rejects.toThrow(ConfigError);
    await expect(failed).rejects.toThrow(`HEALTH_PORT: ${port} on 127.0.0.1`);
    await rm(dir, { recursive: true });
  });
});

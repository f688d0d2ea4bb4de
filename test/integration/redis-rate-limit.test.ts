import { afterEach, describe, expect, test } from "@jest/globals";
import type { Config } from "../../lib/config.ts";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { RateLimit } from "../../services/gateway/rate-limit.ts";
import { type Product, startProduct } from "../support/product.ts";
import { RedisServer } from "../support/redis-server.ts";
import { ownServersForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const servers = await ownServersForTests("redis");
const open: { stop(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.stop();
});

async function redis(options?: { down: boolean }): Promise<RedisServer> {
  const server = await RedisServer.start(options);
  open.push(server);
  return server;
}
async function product(env: Record<string, string>): Promise<Product> {
  const started = await startProduct({ ADMIN_PASSWORD: "a-password-for-tests", ...env });
  open.push(started);
  return started;
}
const CHEAP = "/auth/admin/logout";

/** Statuses of some requests, one after the other. */
async function statuses(count: number, ask: () => Promise<{ status: number }>): Promise<number[]> {
  const all: number[] = [];
  for (let n = 0; n < count; n += 1) all.push((await ask()).status);
  return all;
}

describe("request limit at the gateway", () => {
  test("in memory: the request above the limit is refused with the time to wait, health is not", async () => {
    const one = await product({ RATE_LIMIT_PER_MINUTE: "3", SERVICES: "gateway,platform" });
    const first = await one.request("GET", CHEAP);
    expect(first.headers.get("ratelimit-policy")).toBe('"client";q=3;w=60');
    expect(first.headers.get("ratelimit")).toMatch(/^"client";r=2;t=\d+$/);
    await statuses(2, () => one.request("GET", CHEAP));
    const refused = await one.request("GET", CHEAP, { headers: { "accept-language": "en" } });
    expect(refused.status).toBe(429);
    expect(refused.body.error.type).toBe("RATE_LIMITED");
    const seconds = Number(refused.headers.get("retry-after"));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(refused.headers.get("ratelimit")).toBe(`"client";r=0;t=${seconds}`);
    for (let n = 0; n < 5; n += 1) expect((await one.request("GET", "/healthz")).status).toBe(200);
  });

  test("who is signed in has an allowance of his own; a token that nobody knows counts for its address", async () => {
    const one = await product({ RATE_LIMIT_PER_MINUTE: "4", SERVICES: "gateway,platform" });
    const { body } = await one.request("POST", "/auth/admin/login", {
      body: { username: "admin", password: "a-password-for-tests" },
    });
    expect(await statuses(4, () => one.request("GET", CHEAP, { token: "nobody" }))).toEqual([
      401, 401, 401, 429,
    ]);
    const mine = await one.request("GET", "/agent/admin/app", { token: body.responseData.token });
    expect(mine.status).toBe(200);
    expect(mine.headers.get("ratelimit")).toMatch(/r=3/);
    // The bridge's own reports are never refused.
    const bridge = () => one.request("GET", "/agent/admin/app", { token: one.config.BRIDGE_TOKEN });
    expect(new Set(await statuses(6, bridge))).toEqual(new Set([403]));
  });

  test("a forwarded address counts where the proxy is trusted, and only there", async () => {
    const from = (place: Product, address: string) => () =>
      place.request("GET", CHEAP, { headers: { "x-forwarded-for": address } });
    const env = { RATE_LIMIT_PER_MINUTE: "1", SERVICES: "gateway,platform" };
    const open = await product(env);
    expect(await statuses(1, from(open, "192.0.2.1"))).toEqual([401]);
    expect(await statuses(1, from(open, "192.0.2.2"))).toEqual([429]);
    const behind = await product({ ...env, TRUSTED_PROXIES: "127.0.0.0/8" });
    expect(await statuses(2, from(behind, "192.0.2.1"))).toEqual([401, 429]);
    expect(await statuses(1, from(behind, "192.0.2.2"))).toEqual([401]);
    expect(await statuses(1, from(behind, "192.0.2.3, 192.0.2.2"))).toEqual([429]);
  });

  test("0 sets no limit and sends no such header", async () => {
    const one = await product({ RATE_LIMIT_PER_MINUTE: "0", SERVICES: "gateway,platform" });
    const answer = await one.request("GET", CHEAP);
    expect(answer.status).toBe(401);
    expect(answer.headers.has("ratelimit")).toBe(false);
  });
});

servers.describe("request limit over several gateways", () => {
  test("of requests that reach two gateways at the same time exactly the limit passes", async () => {
    const server = await redis();
    // Shares of 5: a gateway asks Redis for few of them.
    const config = {
      REDIS_URL: server.url,
      NAMESPACE: "t",
      RATE_LIMIT_PER_MINUTE: 500,
    } as Config;
    const gateways = [RateLimit.open(config)!, RateLimit.open({ ...config })!];
    open.push({ stop: () => Promise.all(gateways.map((gateway) => gateway.close())) });
    await until(() => dependenciesOf(config).list()[0]?.state === "up");
    const results = await Promise.all(
      Array.from({ length: 1_500 }, (_, n) => gateways[n % 2]!.count("address:192.0.2.7")),
    );
    expect(results.filter(({ exceeded }) => !exceeded)).toHaveLength(500);
    expect(Math.min(...results.map(({ remaining }) => remaining))).toBe(0);
    const other = await gateways[0]!.count("address:192.0.2.8");
    expect(other).toMatchObject({ exceeded: false, remaining: 499 });
  });

  test("gateways on one Redis share the count; without it each counts for itself, then together again", async () => {
    const server = await redis();
    const env = {
      RATE_LIMIT_PER_MINUTE: "4",
      SERVICES: "gateway,platform",
      REDIS_URL: server.url,
    };
    const [a, b] = [await product(env), await product(env)];
    const each = async () => [
      (await a.request("GET", CHEAP)).status,
      (await b.request("GET", CHEAP)).status,
    ];
    expect(await each()).toEqual([401, 401]);
    expect(await each()).toEqual([401, 401]);
    expect(await each()).toEqual([429, 429]);
    await server.kill();
    // Both serve on, each with a full allowance of its own.
    expect(await statuses(5, () => a.request("GET", "/"))).not.toContain(500);
    await server.restart();
    const shared = async () => {
      const { headers } = await b.request("GET", CHEAP);
      return headers.get("ratelimit");
    };
    await until(async () => (await shared())?.includes("r=0") === true);
  });

  test("a gateway that starts while Redis is down serves, and counts together once it is there", async () => {
    const server = await redis({ down: true });
    const env = {
      RATE_LIMIT_PER_MINUTE: "50",
      SERVICES: "gateway,platform",
      REDIS_URL: server.url,
    };
    const [a, b] = [await product(env), await product(env)];
    expect((await a.request("GET", CHEAP)).headers.get("ratelimit")).toMatch(/r=49/);
    expect((await b.request("GET", CHEAP)).headers.get("ratelimit")).toMatch(/r=49/);
    await server.restart();
    const remaining = async (one: Product) =>
      Number(/r=(\d+)/.exec((await one.request("GET", CHEAP)).headers.get("ratelimit") ?? "")?.[1]);
    // Asked for before that, the allowance would be used up: each request counts.
    const reached = async (one: Product) => {
      const { body } = await one.request("GET", "/readyz");
      const found = body.dependencies.find(({ name }: { name: string }) => name === "redis");
      return found?.state === "ok";
    };
    await until(async () => (await reached(a)) && (await reached(b)));
    // Asked in turn, the two see one falling number.
    await until(async () => {
      const [one, two, three] = [await remaining(a), await remaining(b), await remaining(a)];
      return two === one - 1 && three === one - 2;
    });
  });
});

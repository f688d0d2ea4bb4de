import { afterAll, afterEach, beforeAll, expect, test } from "@jest/globals";
import type { Config } from "../../lib/config.ts";
import { acquireRedis } from "../../lib/redis.ts";
import { CodeStore } from "../../services/auth/code-store.ts";
import { authLimits } from "../../services/auth/config.ts";
import { type ExpiringTexts, MemoryTexts, RedisTexts } from "../../services/auth/expiring-texts.ts";
import { LoginThrottle } from "../../services/auth/login-throttle.ts";
import { codeStoreSuite } from "../support/code-store.suite.ts";
import { RedisServer } from "../support/redis-server.ts";
import { ownServersForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const { describe } = await ownServersForTests("redis");
let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterAll(() => server.stop());

let places = 0;
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

function connect() {
  places += 1;
  const config = { REDIS_URL: server.url, NAMESPACE: `place${places}` } as Config;
  const redis = acquireRedis(config, "Codes.")!;
  ends.push(() => redis.release());
  return { redis, namespace: config.NAMESPACE };
}

codeStoreSuite("memory", async () => {
  const texts = new MemoryTexts(100);
  const stored: string[] = [];
  const watched: ExpiringTexts = {
    read: (key) => texts.read(key),
    swap: (key, before, after, ttlMs) => {
      stored.push(key, after ?? "");
      return texts.swap(key, before, after, ttlMs);
    },
  };
  return {
    open: () => watched,
    dump: async () => stored.join("\n"),
    cleanUp: async () => undefined,
  };
});

codeStoreSuite("Redis", async () => {
  const { redis, namespace } = connect();
  await until(() => redis.ready);
  const { client } = redis;
  return {
    open: () => new RedisTexts(redis, "code"),
    async dump() {
      const keys = await client.keys(`${namespace}:*`);
      const values = await client.mget(keys.map((key) => key.slice(namespace.length + 1)));
      return [...keys, ...values].join("\n");
    },
    cleanUp: async () => undefined,
  };
});

describe("texts in Redis", () => {
  test("end by themselves once nothing depends on them", async () => {
    const { redis, namespace } = connect();
    await until(() => redis.ready);
    const codes = new CodeStore(new RedisTexts(redis, "code"), "a secret of the nodes");
    await codes.issue({ purpose: "x", address: "someone" }, Date.now());
    const [key] = await redis.client.keys(`${namespace}:code:*`);
    const left = await redis.client.pttl(key!.slice(namespace.length + 1));
    expect(left).toBeGreaterThan(authLimits.codeMs);
    expect(left).toBeLessThanOrEqual(authLimits.codeWindowMs);
  });

  test("while Redis is dead codes are unavailable, and work again after", async () => {
    const own = await RedisServer.start();
    ends.push(() => own.stop());
    const config = { REDIS_URL: own.url, NAMESPACE: "t" } as Config;
    const redis = acquireRedis(config, "Codes.")!;
    ends.unshift(() => redis.release());
    await until(() => redis.ready);
    const codes = new CodeStore(new RedisTexts(redis, "code"), "a secret of the nodes");
    const subject = { purpose: "x", address: "someone" };
    await own.kill();
    await expect(codes.issue(subject, Date.now())).rejects.toMatchObject({ type: "UNAVAILABLE" });
    await expect(codes.check(subject, "123456", Date.now())).rejects.toMatchObject({
      type: "UNAVAILABLE",
    });
    await own.restart();
    await until(() => redis.ready);
    const { code } = await codes.issue(subject, Date.now());
    expect(await codes.check(subject, code, Date.now())).toBe("accepted");
  });
});

describe("failed logins over several nodes", () => {
  test("free tries at the same time are free, also where one node's clock is behind", async () => {
    const { redis } = connect();
    await until(() => redis.ready);
    const nodes = [new LoginThrottle(redis), new LoginThrottle(redis)];
    const now = Date.now();
    const waits = await Promise.all(
      Array.from({ length: 4 }, (_, n) => nodes[n % 2]!.begin("a", now - (n % 2) * 5_000)),
    );
    expect(waits).toEqual([0, 0, 0, 0]);
  });

  test("count together in Redis; while it is dead each node still counts, then together again", async () => {
    const own = await RedisServer.start();
    ends.push(() => own.stop());
    const redis = acquireRedis({ REDIS_URL: own.url, NAMESPACE: "t" } as Config, "Logins.")!;
    ends.unshift(() => redis.release());
    await until(() => redis.ready);
    const nodes = [new LoginThrottle(redis), new LoginThrottle(redis)];
    const now = Date.now();
    /** Wrong tries, in turn at each node, until one has to wait. */
    const freeTries = async (key: string) => {
      let tries = 0;
      while ((await nodes[tries % 2]!.begin(key, now)) === 0) {
        await nodes[tries % 2]!.wrong(key, now);
        tries += 1;
      }
      return tries;
    };
    expect(await freeTries("a")).toBe(authLimits.failuresFree + 1);
    await nodes[1]!.right("a");
    expect(await nodes[0]!.begin("a", now)).toBe(0);
    // Sent at the same time they are not free either.
    const waits = await Promise.all(
      Array.from({ length: 30 }, (_, n) => nodes[n % 2]!.begin("b", now)),
    );
    expect(waits.filter((wait) => wait === 0)).toHaveLength(authLimits.failuresFree + 1);
    await own.kill();
    await until(() => !redis.ready);
    expect(await freeTries("c")).toBe(2 * (authLimits.failuresFree + 1));
    await own.restart();
    await until(() => redis.ready);
    expect(await freeTries("d")).toBe(authLimits.failuresFree + 1);
  });
});

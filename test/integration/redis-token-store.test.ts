import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "@jest/globals";
import type { Config } from "../../lib/config.ts";
import { acquireRedis, type RedisHandle } from "../../lib/redis.ts";
import { authLimits } from "../../services/auth/config.ts";
import { RedisTokenStore } from "../../services/auth/redis-token-store.ts";
import { SqliteTokenStore } from "../../services/auth/sqlite-token-store.ts";
import type { LoginToken, TokenStore } from "../../services/auth/token-store.ts";
import { startProduct } from "../support/product.ts";
import { RedisServer } from "../support/redis-server.ts";
import { ownServersForTests } from "../support/servers.ts";
import { tokenStoreSuite } from "../support/token-store.suite.ts";
import { until } from "../support/until.ts";

const { describe } = await ownServersForTests("redis");
let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterAll(() => server.stop());

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

let places = 0;
/** A handle on Redis, ready, with keys of this test's own. */
async function connect(place: string, at = server): Promise<RedisHandle> {
  const redis = acquireRedis({ REDIS_URL: at.url, NAMESPACE: place } as Config, "Tokens.")!;
  await until(() => redis.ready);
  return redis;
}

tokenStoreSuite("Redis in front of SQLite", async () => {
  places += 1;
  const place = `suite${places}`;
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-test-"));
  return {
    open: async () =>
      new RedisTokenStore(
        await SqliteTokenStore.open(join(dir, "records.sqlite")),
        await connect(place),
      ),
    cleanUp: () => rm(dir, { recursive: true, force: true }),
  };
});

const NOW = Date.now();
const token: LoginToken = {
  digest: "ab".repeat(32),
  realm: "admin",
  accountId: "a1",
  name: "admin",
  createdAt: NOW,
  expiresAt: NOW + 3_600_000,
};

/** A durable store that counts questions, and can be held between reading a token and answering it. */
class WatchedStore {
  finds = 0;
  hold: Promise<void> | undefined;
  readonly store: TokenStore;
  constructor(store: TokenStore) {
    this.store = {
      issue: (one, max) => store.issue(one, max),
      find: async (digest, now) => {
        this.finds += 1;
        const found = await store.find(digest, now);
        await this.hold;
        return found;
      },
      revoke: (digest) => store.revoke(digest),
      revokeAccount: (realm, id) => store.revokeAccount(realm, id),
      close: () => store.close(),
    };
  }
}

async function twoNodes() {
  const own = await RedisServer.start();
  ends.push(() => own.stop());
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-test-"));
  ends.push(() => rm(dir, { recursive: true, force: true }));
  const durable = new WatchedStore(await SqliteTokenStore.open(join(dir, "records.sqlite")));
  ends.push(() => durable.store.close());
  const redis = await connect("nodes", own);
  const open = async () => {
    const node = new RedisTokenStore(durable.store, await connect("nodes", own));
    ends.push(() => node.close());
    return node;
  };
  ends.push(() => redis.release());
  return { own, durable, redis, a: await open(), b: await open() };
}

describe("login tokens with Redis in front", () => {
  test("what one node has looked up, another finds in Redis, for a bounded time", async () => {
    const { durable, redis, a, b } = await twoNodes();
    await a.issue(token, 5);
    expect(await a.find(token.digest, NOW)).toEqual(token);
    expect(await b.find(token.digest, NOW)).toEqual(token);
    expect(durable.finds).toBe(1);
    const left = await redis.client.pttl(`token:${token.digest}`);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(authLimits.sharedTokenMs);
    expect(authLimits.sharedTokenMs).toBeLessThan(authLimits.verifyCacheMs);
  });

  test("a revoked token is none on every node at once, also where it was being looked up", async () => {
    const { durable, a, b } = await twoNodes();
    await a.issue(token, 5);
    let go = () => {};
    durable.hold = new Promise((resolve) => {
      go = resolve;
    });
    const slow = b.find(token.digest, NOW);
    await until(() => durable.finds === 1);
    await a.revoke(token.digest);
    go();
    // It read the token before it was revoked, but must neither say so now nor leave it for others.
    expect(await slow).toBeUndefined();
    expect(await a.find(token.digest, NOW)).toBeUndefined();
    expect(await b.find(token.digest, NOW)).toBeUndefined();
  });

  test("a token stays valid when Redis restarts empty, and while it is dead", async () => {
    const { own, redis, a, b } = await twoNodes();
    await a.issue(token, 5);
    expect(await b.find(token.digest, NOW)).toEqual(token);
    await own.kill();
    expect(await b.find(token.digest, NOW)).toEqual(token);
    await own.restart();
    await until(() => redis.ready);
    expect(await b.find(token.digest, NOW)).toEqual(token);
  });

  test("a token that is revoked while Redis is dead is none from then on", async () => {
    const { own, redis, a, b } = await twoNodes();
    await a.issue(token, 5);
    expect(await b.find(token.digest, NOW)).toEqual(token);
    await own.kill();
    await a.revoke(token.digest);
    expect(await b.find(token.digest, NOW)).toBeUndefined();
    await own.restart();
    await until(() => redis.ready);
    expect(await b.find(token.digest, NOW)).toBeUndefined();
  });
});

describe("sign-in with Redis", () => {
  const password = "correct horse battery";

  test("logout ends a token at once, before, during and after an outage of Redis", async () => {
    const own = await RedisServer.start();
    ends.push(() => own.stop());
    const product = await startProduct({
      SERVICES: "gateway,platform",
      ADMIN_PASSWORD: password,
      REDIS_URL: own.url,
    });
    ends.push(() => product.stop());
    const login = async (): Promise<string> => {
      const { body } = await product.request("POST", "/auth/admin/login", {
        body: { username: "admin", password },
      });
      return body.responseData.token;
    };
    const statusOf = async (one: string) =>
      (await product.request("GET", "/agent/admin/app", { token: one })).status;
    const logout = (one: string) => product.request("GET", "/auth/admin/logout", { token: one });
    const [kept, first, second] = [await login(), await login(), await login()];
    expect([await statusOf(kept), await statusOf(first)]).toEqual([200, 200]);
    await logout(first);
    expect(await statusOf(first)).toBe(401);
    await own.kill();
    expect([await statusOf(kept), await statusOf(second)]).toEqual([200, 200]);
    await logout(second);
    expect(await statusOf(second)).toBe(401);
    const during = await login();
    await own.restart();
    expect(await Promise.all([kept, first, second, during].map((one) => statusOf(one)))).toEqual([
      200, 401, 401, 200,
    ]);
  });

  test("a node that starts while Redis is dead serves, and says what is degraded", async () => {
    const own = await RedisServer.start({ down: true });
    ends.push(() => own.stop());
    const product = await startProduct({
      SERVICES: "gateway,platform",
      ADMIN_PASSWORD: password,
      REDIS_URL: own.url,
    });
    ends.push(() => product.stop());
    const login = () =>
      product.request("POST", "/auth/admin/login", { body: { username: "admin", password } });
    expect((await login()).status).toBe(200);
    const subject = { purpose: "member.login", address: "someone@example.com" };
    const issue = () =>
      product.broker.call<{ code: string }, object>("auth.issueCode", subject, {
        meta: { actor: { realm: "system", id: "test" } },
      });
    await expect(issue()).rejects.toMatchObject({ type: "UNAVAILABLE" });
    const ready = await product.request("GET", "/readyz");
    expect(ready.status).toBe(200);
    expect(JSON.stringify(ready.body)).toMatch(/redis/);
    await own.restart();
    await until(() =>
      issue().then(
        () => true,
        () => false,
      ),
    );
    await expect(product.broker.call("auth.issueCode", subject)).rejects.toMatchObject({
      type: "UNAUTHENTICATED",
    });
  });
});

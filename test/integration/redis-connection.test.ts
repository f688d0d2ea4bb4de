import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "@jest/globals";
import type { Config } from "../../lib/config.ts";
import { dependenciesOf } from "../../lib/dependency-state.ts";
import { acquireRedis, type RedisHandle } from "../../lib/redis.ts";
import { RedisServer } from "../support/redis-server.ts";
import { ownServersForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const { describe } = await ownServersForTests("redis");
let server: RedisServer;
const handles: RedisHandle[] = [];

const configFor = (url?: string) => ({ REDIS_URL: url, NAMESPACE: "test" }) as Config;

function open(config: Config, degrades = "Something is slower."): RedisHandle {
  const handle = acquireRedis(config, degrades)!;
  handles.push(handle);
  return handle;
}
const stateOf = (config: Config) => dependenciesOf(config).list()[0];

describe("connection to Redis", () => {
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  beforeEach(() => server.restart());
  afterEach(async () => {
    for (const handle of handles.splice(0)) await handle.release();
  });
  afterAll(() => server.stop());

  test("without an address there is none, and nothing to depend on", () => {
    const config = configFor();
    expect(acquireRedis(config, "x")).toBeUndefined();
    expect(dependenciesOf(config).list()).toEqual([]);
  });

  test("users of one address share one connection, which the last of them closes", async () => {
    const config = configFor(server.url);
    const [one, two] = [open(config, "One."), open(config, "Two.")];
    expect(two.client).toBe(one.client);
    await until(() => one.ready);
    expect(stateOf(config)).toMatchObject({
      name: "redis",
      state: "up",
      degrades: ["One.", "Two."],
      essential: false,
    });
    await one.release();
    await one.release();
    expect(two.ready).toBe(true);
    await two.release();
    expect(two.client.status).toBe("end");
    expect(dependenciesOf(config).list()).toEqual([]);
    const three = open(config);
    await until(() => three.ready);
    expect(three.client).not.toBe(one.client);
  });

  test("while the server is dead commands fail at once; its return is noticed and told", async () => {
    const config = configFor(server.url);
    const handle = open(config);
    let connections = 0;
    handle.onReady(() => {
      connections += 1;
    });
    await handle.settled;
    await until(() => connections === 1);
    await server.kill();
    await until(() => stateOf(config)!.state === "down");
    expect(handle.ready).toBe(false);
    await expect(handle.client.get("x")).rejects.toThrow();
    await server.restart();
    await until(() => connections === 2);
    expect(await handle.client.set("x", "1")).toBe("OK");
    expect(stateOf(config)!.state).toBe("up");
  });

  test("a server that is not there at the start is known as such, then found", async () => {
    await server.kill();
    const config = configFor(server.url);
    const handle = open(config);
    await handle.settled;
    expect(stateOf(config)).toMatchObject({ state: "down" });
    expect(stateOf(config)!.reason).toMatch(/ECONNREFUSED|closed/);
    await server.restart();
    await until(() => handle.ready);
  });

  test("a server that hangs is given up, so that later commands fail without waiting", async () => {
    const config = configFor(server.url);
    const handle = open(config);
    await until(() => handle.ready);
    await server.freeze();
    await expect(handle.client.get("x")).rejects.toThrow(/timed out/);
    await until(() => stateOf(config)!.state === "down");
    // Its port still takes connections: only an answer counts as being there.
    for (let tries = 0; tries < 5; tries += 1)
      await expect(handle.client.get("x")).rejects.toThrow(/writeable/);
    await server.thaw();
    await until(() => handle.ready);
    expect(await handle.client.ping()).toBe("PONG");
  });

  test("a refused password is told without the password", async () => {
    const config = configFor(server.url.replace("//", "//:very-secret-word@"));
    const keeper = open(configFor(server.url));
    await until(() => keeper.ready);
    await keeper.client.config("SET", "requirepass", "another-word");
    const refused = open(config);
    await until(() => /WRONGPASS|NOAUTH/.test(stateOf(config)?.reason ?? ""));
    expect(refused.ready).toBe(false);
    expect(JSON.stringify(stateOf(config))).not.toContain("secret-word");
  });
});

import { afterEach, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";
import { RedisServer } from "../support/redis-server.ts";
import { ownServersForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const { describe } = await ownServersForTests("redis");
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const PASSWORD = "correct horse battery";

/** One client who signs in and out, writes and reads back what he wrote, until told to stop. */
async function traffic(product: Product, name: string, goesOn: () => boolean): Promise<number> {
  let requests = 0;
  const ask = async (method: string, path: string, options: object = {}) => {
    const answer = await product.request(method, path, options);
    requests += 1;
    if (answer.status !== 200)
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.responseData;
  };
  const { token } = await ask("POST", "/auth/admin/login", {
    body: { username: "admin", password: PASSWORD },
  });
  const { id } = await ask("POST", "/agent/admin/app", { token, body: { name, category: name } });
  for (let n = 1; goesOn(); n += 1) {
    const description = `${name} ${n}`;
    await ask("PATCH", `/agent/admin/app/${id}`, { token, body: { description } });
    for (let twice = 0; twice < 2; twice += 1) {
      expect((await ask("GET", `/agent/admin/app/${id}`, { token })).description).toBe(description);
      const { rows } = await ask("GET", `/agent/admin/app?category=${name}`, { token });
      expect(rows).toMatchObject([{ description }]);
    }
  }
  await ask("GET", "/auth/admin/logout", { token });
  expect((await product.request("GET", "/agent/admin/app", { token })).status).toBe(401);
  return requests;
}

describe("a product that serves", () => {
  test("every request is answered, and each client sees what he wrote, while Redis dies, hangs and returns", async () => {
    const redis = await RedisServer.start();
    ends.push(() => redis.stop());
    const product = await startProduct({
      SERVICES: "gateway,platform",
      ADMIN_PASSWORD: PASSWORD,
      REDIS_URL: redis.url,
    });
    ends.push(() => product.stop());
    /** Whether the node is ready, as it is without Redis too, and shows Redis in this state. */
    const shows = async (state: string) => {
      const { status, body } = await product.request("GET", "/readyz");
      const line = body.dependencies.find(({ name }: { name: string }) => name === "redis");
      affects = line.affects ?? [];
      return status === 200 && line.state === state;
    };
    let affects: string[] = [];
    await until(() => shows("ok"));
    let goesOn = true;
    let failure: unknown;
    let rounds = 0;
    const clients = Array.from({ length: 4 }, (_, n) =>
      traffic(product, `client${n}`, () => {
        rounds += 1;
        return goesOn && failure === undefined;
      }).catch((error) => {
        failure ??= error;
        return 0;
      }),
    );
    const moreTraffic = async (count: number) => {
      const wanted = rounds + count;
      await until(() => rounds >= wanted || failure !== undefined, { limitMs: 60_000 });
      if (failure !== undefined) throw failure;
    };
    await moreTraffic(8);
    await redis.kill();
    await until(() => shows("down"));
    expect(affects.join(" ")).toMatch(/codes.*limits|limits.*codes/is);
    await moreTraffic(8);
    await redis.restart();
    await until(() => shows("ok"));
    await moreTraffic(8);
    await redis.freeze();
    await until(() => shows("down"));
    await moreTraffic(8);
    await redis.thaw();
    await until(() => shows("ok"));
    await moreTraffic(8);
    goesOn = false;
    const requests = await Promise.all(clients);
    expect(failure).toBeUndefined();
    expect(Math.min(...requests)).toBeGreaterThan(5);
  }, 120_000);
});

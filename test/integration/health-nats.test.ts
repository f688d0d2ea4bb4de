import { afterEach, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";
import { ownServersForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const own = await ownServersForTests("nats");
const running: Product[] = [];
// The node ends before its server does: these hooks run last declared, first run.
afterEach(async () => {
  for (const product of running.splice(0)) await product.stop();
});

interface Report {
  status: string;
  dependencies: { name: string; state: string; essential: boolean; reason?: string }[];
}
const messagingOf = (report: Report) =>
  report.dependencies.find(({ name }) => name === "messaging");

own.describe("/readyz of a node whose messaging server goes away", () => {
  test("frozen, back, stopped, back: says so each time, and the node ends while it is away", async () => {
    const nats = (await own.start("nats")).get("nats");
    const product = await startProduct({
      TRANSPORTER: nats.env.TRANSPORTER!,
      NODE_ID: "edge",
      SERVICES: "gateway",
    });
    running.push(product);
    const messaging = async (state: string) => {
      let seen: { code: number; report: Report } | undefined;
      await until(
        async () => {
          const answer = await fetch(`${product.url}/readyz`);
          seen = { code: answer.status, report: (await answer.json()) as Report };
          return messagingOf(seen.report)?.state === state;
        },
        { what: `messaging ${state}` },
      );
      return seen!;
    };
    await messaging("ok");

    await nats.pause();
    const frozen = await messaging("down");
    expect(frozen.code).toBe(503);
    expect(messagingOf(frozen.report)).toMatchObject({
      essential: true,
      reason: expect.stringMatching(/no answer within|not connected/),
    });
    expect((await fetch(`${product.url}/healthz`)).status).toBe(200);
    await nats.resume();
    await messaging("ok");

    await nats.stop();
    const stopped = await messaging("down");
    expect(stopped.code).toBe(503);
    await nats.start();
    await messaging("ok");

    await nats.stop();
    await messaging("down");
    running.splice(0);
    await product.stop();
    await expect(fetch(`${product.url}/healthz`)).rejects.toThrow();
  }, 60_000);
});

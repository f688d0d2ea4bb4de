import { afterEach, describe, expect, test } from "@jest/globals";
import { ServiceBroker } from "moleculer";
import { z } from "zod";
import { brokerOptions } from "../../lib/broker-options.ts";
import { type Config, loadConfig } from "../../lib/config.ts";
import { action, defineContract } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import { leaderCallMiddleware } from "../../lib/leader-call.middleware.ts";
import { until } from "../support/until.ts";

const contract = defineContract({
  name: "desk",
  about: "Hosted by a leader",
  leaderHosted: true,
  actions: {
    add: action({ summary: "Adds", input: z.object({}), output: z.object({}) }),
    look: action({ summary: "Looks", input: z.object({}), output: z.object({}), idempotent: true }),
  },
});

const brokers: ServiceBroker[] = [];
const silences: (() => void)[] = [];
let meshes = 0;
let namespace = "";

afterEach(async () => {
  // Else the time-out of each such call would outlive its node.
  for (const end of silences.splice(0)) end();
  await Promise.all(brokers.splice(0).map((broker) => broker.stop()));
  meshes += 1;
});

/** A node of the mesh of this test; the transporter works within the process. */
async function node(name: string, waitMs = 5_000): Promise<ServiceBroker> {
  namespace = `leader-call-${meshes}`;
  const config = { ...loadConfig({}, { generate: false }).config, NODE_ID: name } as Config;
  const options = brokerOptions(config, { namespace, transporter: "Fake", logLevel: "fatal" });
  // A stop must not wait for the hosts that never answer.
  options.tracking = { enabled: false };
  options.middlewares?.push(leaderCallMiddleware([contract], waitMs));
  const broker = new ServiceBroker(options);
  brokers.push(broker);
  await broker.start();
  return broker;
}

/** Hosts the service as a leader of this term; `answer` is asked for each call. */
function lead(broker: ServiceBroker, term: number, answer: () => unknown) {
  const calls = { count: 0 };
  const handler = () => {
    calls.count += 1;
    return answer();
  };
  const access = "public";
  const actions = { add: { access, handler }, look: { access, handler } };
  const service = broker.createService({ name: "desk", metadata: { term }, actions });
  return { calls, end: () => broker.destroyService(service) };
}

const known = (broker: ServiceBroker, count: number) =>
  until(
    () => broker.registry.services.list({}).filter(({ name }) => name === "desk").length === count,
  );
/** Gives no answer as long as the test goes on. */
const never = () =>
  new Promise<void>((resolve) => {
    silences.push(resolve);
  });

describe("calls of a service that a leader hosts", () => {
  test("wait for a leader where there is none yet", async () => {
    const [client, a] = await Promise.all([node("client"), node("a")]);
    const answer = client.call("desk.add", {});
    lead(a, 1, () => "done");
    expect(await answer).toBe("done");
  });

  test("that no leader answers in time end with UNAVAILABLE, which may be tried later", async () => {
    const client = await node("client", 100);
    await expect(client.call("desk.add", {})).rejects.toMatchObject({
      type: "UNAVAILABLE",
      retryable: true,
    });
  });

  test("go to the latest term while an earlier leader is still announced", async () => {
    const [client, a, b] = await Promise.all([node("client"), node("a"), node("b")]);
    const old = lead(a, 1, () => "old");
    lead(b, 2, () => "new");
    await known(client, 2);
    const answers = await Promise.all(Array.from({ length: 6 }, () => client.call("desk.add", {})));
    expect(answers).toEqual(Array(6).fill("new"));
    expect(old.calls.count).toBe(0);
  });

  test("are repeated when a node says that it does not lead", async () => {
    const [client, a, b] = await Promise.all([node("client"), node("a"), node("b")]);
    const old = lead(a, 1, () => {
      throw new AppError("NOT_LEADER");
    });
    await known(client, 1);
    const answer = client.call("desk.add", {});
    await until(() => old.calls.count > 0);
    lead(b, 2, () => "done");
    expect(await answer).toBe("done");
  });

  test("that may have been carried out are repeated only if that does no harm", async () => {
    const [client, a] = await Promise.all([node("client"), node("a")]);
    const silent = lead(a, 1, never);
    await known(client, 1);
    const timeout = 300;
    await expect(client.call("desk.add", {}, { timeout })).rejects.toMatchObject({
      type: "REQUEST_TIMEOUT",
    });
    expect(silent.calls.count).toBe(1);
    const b = await node("b");
    const calls = [client.call("desk.look", {}), client.call("desk.add", { idempotencyKey: "k" })];
    await until(() => silent.calls.count === 3);
    lead(b, 2, () => "done");
    // Without waiting for the time-out of the silent one.
    expect(await Promise.all(calls)).toEqual(["done", "done"]);
  });

  test("that failed for a reason of their own are not repeated", async () => {
    const [client, a] = await Promise.all([node("client"), node("a")]);
    const host = lead(a, 1, () => {
      throw new AppError("CONFLICT", { reason: "no" });
    });
    await known(client, 1);
    await expect(client.call("desk.look", {})).rejects.toMatchObject({ type: "CONFLICT" });
    expect(host.calls.count).toBe(1);
  });

  test("a caller's own time-out holds for all tries together", async () => {
    const [client, a] = await Promise.all([node("client"), node("a")]);
    const silent = lead(a, 1, never);
    await known(client, 1);
    await expect(client.call("desk.look", {}, { timeout: 200 })).rejects.toMatchObject({
      type: "REQUEST_TIMEOUT",
    });
    expect(silent.calls.count).toBe(1);
  });

  test("that wait end when their own node stops", async () => {
    const client = await node("client", 60_000);
    const answer = client.call("desk.add", {});
    const outcome = expect(answer).rejects.toMatchObject({ type: "SERVICE_NOT_FOUND" });
    await client.stop();
    await outcome;
  });
});

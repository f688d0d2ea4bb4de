import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { ServiceBroker } from "moleculer";
import { brokerOptions } from "../../lib/broker-options.ts";
import { loadConfig } from "../../lib/config.ts";
import { type Actor, type Realm, realms, routesOf } from "../../lib/contract.ts";
import { contracts } from "../../services/contracts.ts";
import { rawRoutes } from "../../services/gateway/raw-routes.ts";
import { type Product, startProduct } from "../support/product.ts";

const ID = "01a1fc12-d17f-7813-8d40-6d0199bf1886";
let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product.stop());

const actions = contracts.flatMap((service) =>
  Object.entries(service.actions).map(([name, contract]) => ({
    name: `${service.name}.${name}`,
    access: contract.access as "public" | readonly Realm[] | undefined,
  })),
);

/** A call as the edge makes it for this actor. */
const fromEdge = (action: string, actor: Actor | undefined) =>
  product.broker.call(action, {}, { caller: "gateway", meta: { actor } } as never).then(
    () => "done",
    (error: { type?: string }) => error.type ?? "?",
  );

describe("policy hook", () => {
  test("an action that names nobody is closed to everybody outside", async () => {
    const closed = actions.filter(({ access }) => access === undefined);
    expect(closed.length).toBeGreaterThan(5);
    for (const { name } of closed) {
      expect([name, await fromEdge(name, undefined)]).toEqual([name, "UNAUTHENTICATED"]);
      for (const realm of realms.filter((one) => one !== "system"))
        expect([name, realm, await fromEdge(name, { realm, id: "x" })]).toEqual([
          name,
          realm,
          "FORBIDDEN",
        ]);
    }
  });

  test("an action that names realms is closed to all others", async () => {
    const named = actions.filter(({ access }) => access !== undefined && access !== "public");
    expect(named.length).toBeGreaterThan(0);
    for (const { name, access } of named) {
      expect([name, await fromEdge(name, undefined)]).toEqual([name, "UNAUTHENTICATED"]);
      for (const realm of realms.filter((one) => one !== "system" && !access!.includes(one)))
        expect([name, realm, await fromEdge(name, { realm, id: "x" })]).toEqual([
          name,
          realm,
          "FORBIDDEN",
        ]);
    }
  });

  test("an action without a contract, as mixins bring them, is closed too", async () => {
    const contracted = new Set(actions.map(({ name }) => name));
    const { actions: all } = product.broker.registry as unknown as {
      actions: { actions: Map<string, unknown> };
    };
    const bare = [...all.actions.keys()].filter(
      (name) => !contracted.has(name) && !name.startsWith("$node.") && name !== "gateway.rest",
    );
    for (const name of bare)
      expect([name, await fromEdge(name, { realm: "admin", id: "x" })]).toEqual([
        name,
        "FORBIDDEN",
      ]);
  });

  test("the actor of a request stays who it was, whatever is called on the way", async () => {
    const { config } = loadConfig({ DATA_DIR: product.config.DATA_DIR, LOG_LEVEL: "fatal" });
    const broker = new ServiceBroker({ ...brokerOptions(config), nodeID: "pin" });
    broker.createService({
      name: "inner",
      actions: { act: { access: [], handler: () => "ok" } as never },
    });
    broker.createService({
      name: "outer",
      actions: {
        act: {
          access: ["agent"],
          async handler(ctx: {
            call: (name: string, params: object, options: object) => Promise<unknown>;
            meta: { actor?: Actor };
          }) {
            await ctx.call("inner.act", {}, { meta: { actor: { realm: "system", id: "system" } } });
            return ctx.meta.actor;
          },
        } as never,
      },
    });
    await broker.start();
    try {
      const actor = { realm: "agent" as const, id: "a" };
      expect(await broker.call("outer.act", {}, { meta: { actor } })).toEqual(actor);
    } finally {
      await broker.stop();
    }
  });
});

describe("routes", () => {
  const routed = [
    ...routesOf(contracts).map(({ method, path, contract }) => ({
      method: method as string,
      path,
      access: contract.access,
    })),
    ...rawRoutes.map(({ method, path, access }) => ({ method: method as string, path, access })),
  ].map((route) => ({ ...route, path: route.path.replace(/\{\w+\*?\}/g, ID) }));

  test("every route that is not public refuses an anonymous client", async () => {
    const guarded = routed.filter(({ access }) => access !== "public");
    expect(guarded.length).toBeGreaterThan(0);
    for (const { method, path } of guarded) {
      const body = ["GET", "HEAD"].includes(method) ? undefined : {};
      const { status } = await product.request(method, path, { body });
      expect([method, path, status]).toEqual([method, path, 401]);
    }
  });

  test("the public ones are these and no others", () => {
    const open = routesOf(contracts).filter(({ contract }) => contract.access === "public");
    expect(open.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([
      "GET /index/",
      "POST /auth/admin/login",
    ]);
  });

  test("every routed action says who may call it", () => {
    const silent = routesOf(contracts).filter(({ contract }) => contract.access === undefined);
    expect(silent.map(({ action }) => action)).toEqual([]);
  });
});

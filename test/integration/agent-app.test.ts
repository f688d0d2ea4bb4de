import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";

const path = "/agent/admin/app";

let product: Product;
let admin: string;
beforeAll(async () => {
  product = await startProduct();
  const login = await product.request("POST", "/auth/admin/login", {
    body: { username: "admin", password: product.config.ADMIN_PASSWORD },
  });
  admin = login.body.responseData.token;
});
afterAll(() => product.stop());

const send = (token: string | undefined, method: string, target: string, body?: unknown) =>
  product.request(method, target, { token, body, headers: { "accept-language": "en" } });

describe("agent apps", () => {
  test("a created app carries id, version, times and the defaults of its fields", async () => {
    const made = await send(admin, "POST", path, { name: "Daily vlog", config: { tone: "calm" } });
    const app = made.body.responseData;
    expect(app).toMatchObject({
      name: "Daily vlog",
      description: "",
      config: { tone: "calm" },
      status: "enabled",
      version: 1,
    });
    expect(app.createdAt).toBe(app.updatedAt);
    const read = await send(product.config.MCP_TOKEN, "GET", `${path}/${app.id}`);
    expect([read.status, read.body.responseData]).toEqual([200, app]);
  });

  test("agents may read but not change", async () => {
    const agent = product.config.MCP_TOKEN;
    expect((await send(agent, "GET", path)).status).toBe(200);
    for (const [method, target, body] of [
      ["POST", path, { name: "x" }],
      ["PATCH", path, { id: "x", name: "y" }],
      ["DELETE", `${path}/x`, undefined],
    ] as const)
      expect([method, (await send(agent, method, target, body)).status]).toEqual([method, 403]);
  });

  test("other realms and nobody are kept out", async () => {
    expect((await send(product.config.BRIDGE_TOKEN, "GET", path)).status).toBe(403);
    expect((await send(undefined, "GET", path)).status).toBe(401);
  });

  test("an app is found by a Chinese word of its description", async () => {
    await send(admin, "POST", path, { name: "探店", description: "三分钟做一条美食短视频" });
    const found = await send(admin, "GET", `${path}?search=${encodeURIComponent("美食")}`);
    expect(found.body.responseData.rows).toMatchObject([{ name: "探店" }]);
  });

  test("an app with runs cannot be removed until they are", async () => {
    const app = (await send(admin, "POST", path, { name: "busy" })).body.responseData;
    const run = await send(admin, "POST", "/agent/admin/run", { app_id: app.id });
    const refused = await send(admin, "DELETE", `${path}/${app.id}`);
    expect([refused.status, refused.body.message]).toEqual([
      409,
      expect.stringContaining(`${app.id} has 1 runs`),
    ]);
    await send(admin, "DELETE", `/agent/admin/run/${run.body.responseData.id}`);
    expect((await send(admin, "DELETE", `${path}/${app.id}`)).status).toBe(200);
  });

  test("every route of the resource stands in the API description", async () => {
    const { paths } = (await product.request("GET", "/openapi.json")).body;
    expect(Object.keys(paths[path]).sort()).toEqual(["delete", "get", "patch", "post"]);
    expect(Object.keys(paths[`${path}/{id}`]).sort()).toEqual(["delete", "get", "patch"]);
    const names = paths[path].get.parameters.map((parameter: { name: string }) => parameter.name);
    expect(names).toEqual(expect.arrayContaining(["page", "sort", "search", "status.in", "id"]));
  });
});

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";

const admin = { meta: { actor: { realm: "admin", id: "test" } } };

let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product.stop());

// biome-ignore lint/suspicious/noExplicitAny: answers are checked field by field
const call = (name: string, params: object): Promise<any> =>
  product.broker.call(name, params, admin as never);
const asAgent = (method: string, path: string, body?: unknown) =>
  product.request(method, path, {
    token: product.config.MCP_TOKEN,
    body,
    headers: { "accept-language": "en" },
  });

describe("agent apps", () => {
  test("a created app carries id, version, times and the defaults of its fields", async () => {
    const app = await call("agent.app.create", { name: "Daily vlog" });
    expect(app).toMatchObject({ name: "Daily vlog", version: 1, status: "enabled", config: {} });
    expect(app.createdAt).toBe(app.updatedAt);
    const answer = await asAgent("GET", `/agent/admin/app/${app.id}`);
    expect([answer.status, answer.body.responseData]).toEqual([200, app]);
  });
});

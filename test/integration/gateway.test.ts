import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";

let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product.stop());

describe("gateway", () => {
  test("answers an unknown route in the envelope, Chinese by default, English on request", async () => {
    const chinese = await product.request("GET", "/nope");
    expect(chinese.status).toBe(404);
    expect(chinese.body).toMatchObject({ returnCode: 1004, message: "接口不存在：GET /nope" });
    const english = await product.request("GET", "/nope", { headers: { "accept-language": "en" } });
    expect(english.body.message).toBe("No such route: GET /nope");
  });
});

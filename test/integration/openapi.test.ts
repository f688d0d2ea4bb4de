import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { Validator } from "@seriousme/openapi-schema-validator";
import { routesOf } from "../../lib/contract.ts";
import { contracts } from "../../services/contracts.ts";
import { openApiDocument } from "../../services/gateway/openapi.ts";
import { rawRoutes } from "../../services/gateway/raw-routes.ts";
import { type Product, startProduct } from "../support/product.ts";

let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product.stop());

describe("API document", () => {
  test("is valid OpenAPI 3.1 by an independent validator", async () => {
    const { body } = await product.request("GET", "/openapi.json");
    const validator = new Validator();
    const verdict = await validator.validate(body);
    expect(verdict.errors).toBeUndefined();
    expect(verdict.valid).toBe(true);
    expect(validator.version).toBe("3.1");
  });

  test("holds every route once, with unique operation ids, and resolves its references", async () => {
    const document = openApiDocument(routesOf(contracts), rawRoutes) as {
      paths: Record<string, Record<string, { operationId: string }>>;
      components: { schemas: Record<string, unknown> };
    };
    const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
    expect(operations).toHaveLength(routesOf(contracts).length + rawRoutes.length);
    const ids = operations.map(({ operationId }) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(
      (match) => match[1]!,
    );
    const known = Object.keys(document.components.schemas).map(
      (name) => `#/components/schemas/${name}`,
    );
    expect(references.filter((reference) => !known.includes(reference))).toEqual([]);
  });

  test("describes login: open, its body, its envelope, its own errors", async () => {
    const { body } = await product.request("GET", "/openapi.json");
    const login = body.paths["/auth/admin/login"].post;
    expect(login.security).toEqual([{}]);
    expect(login.requestBody.content["application/json"].schema.required).toEqual([
      "username",
      "password",
    ]);
    expect(
      login.responses["200"].content["application/json"].schema.properties.responseData.properties,
    ).toHaveProperty("token");
    expect(login.responses["401"].description).toContain("LOGIN_REJECTED");
    expect(body.paths["/auth/admin/logout"].get.security).toEqual([{ admin: [] }]);
  });
});

describe("documentation page", () => {
  test("brings all its own files and forbids every other origin", async () => {
    const page = await product.request("GET", "/docs");
    expect(page.status).toBe(200);
    const addresses = [...String(page.body).matchAll(/(?:src|href)="([^"]+)"/g)].map(
      (match) => match[1]!,
    );
    expect(addresses.length).toBeGreaterThan(2);
    expect(addresses.filter((address) => !address.startsWith("/docs/"))).toEqual([]);
    for (const address of addresses)
      expect((await product.request("GET", address)).status).toBe(200);
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
  });

  test("answers 304 to a known version and 404 to a file that is not its own", async () => {
    const etag = (await product.request("GET", "/openapi.json")).headers.get("etag")!;
    const again = await product.request("GET", "/openapi.json", {
      headers: { "if-none-match": etag },
    });
    expect(again.status).toBe(304);
    expect((await product.request("GET", "/docs/package.json")).status).toBe(404);
    expect((await product.request("GET", "/docs/..%2fpackage.json")).status).toBe(404);
  });
});

import { readdir } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

const UPLOAD = "/common/cloudvendor-oss/upload-file";
let product: Product;
let token: string;
beforeAll(async () => {
  product = await startProduct();
  const { body } = await product.request("POST", "/auth/admin/login", {
    body: { username: "admin", password: product.config.ADMIN_PASSWORD },
  });
  token = body.responseData.token;
});
afterAll(() => product.stop());

const spooled = () => readdir(join(product.config.DATA_DIR, "spool")).catch(() => []);

const upload = (form: FormData) =>
  fetch(`${product.url}${UPLOAD}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "accept-language": "en" },
    body: form,
    // biome-ignore lint/suspicious/noExplicitAny: answers are checked field by field
  }).then(async (response) => ({ status: response.status, body: (await response.json()) as any }));

const formOf = (...parts: [string, string | Blob][]) => {
  const form = new FormData();
  for (const [name, value] of parts) form.append(name, value);
  return form;
};

describe("multipart forms", () => {
  test("fields may follow the file, and the spooled copy is gone afterwards", async () => {
    const bytes = new Uint8Array(3_000_000).map((_, n) => n % 251);
    const answer = await upload(
      formOf(["file", new Blob([bytes])], ["bucket", "reelmesh"], ["object_key", "a/later.bin"]),
    );
    expect(answer).toMatchObject({
      status: 200,
      body: { returnCode: 0, responseData: { object_key: "a/later.bin" } },
    });
    expect(await spooled()).toEqual([]);
  });

  test.each<[string, [string, string | Blob][], RegExp]>([
    [
      "two files",
      [
        ["file", new Blob(["1"])],
        ["file", new Blob(["2"])],
      ],
      /too many files/,
    ],
    [
      "a name into a prototype",
      [
        ["__proto__", "1"],
        ["file", new Blob(["1"])],
      ],
      /__proto__/,
    ],
    ["a missing field", [["file", new Blob(["1"])]], /bucket/],
  ])("%s: refused, nothing left behind", async (_name, parts, reason) => {
    const answer = await upload(formOf(...parts));
    expect(answer.status).toBe(400);
    expect(answer.body.message).toMatch(reason);
    expect(await spooled()).toEqual([]);
  });

  test("a form that breaks off leaves nothing behind", async () => {
    const sent = httpRequest(`${product.url}${UPLOAD}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "multipart/form-data; boundary=x",
        "content-length": "1000000",
      },
    });
    sent.on("error", () => undefined);
    sent.write('--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nabc');
    await until(async () => (await spooled()).length === 1);
    sent.destroy();
    await until(async () => (await spooled()).length === 0);
  });

  test("a form without a boundary is refused", async () => {
    const answer = await product.request("POST", UPLOAD, {
      token,
      body: {},
      headers: { "content-type": "multipart/form-data", "accept-language": "en" },
    });
    expect(answer.status).toBe(400);
    expect(answer.body.message).toMatch(/boundary/i);
  });
});

describe("input filter", () => {
  const key = (answer: { body: { responseData: { object_key: string } } }) =>
    answer.body.responseData.object_key;

  test("form fields are filtered, JSON passes unharmed", async () => {
    const form = await upload(
      formOf(["bucket", "reelmesh"], ["object_key", "a&b.txt"], ["file_content", "x"]),
    );
    expect(key(form)).toBe("a&amp;b.txt");
    const json = await product.request("POST", UPLOAD, {
      token,
      body: { bucket: "reelmesh", object_key: "a&b.txt", file_content: "x" },
    });
    expect(key(json)).toBe("a&b.txt");
  });
});

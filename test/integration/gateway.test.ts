import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";

const LOGIN = "/auth/admin/login";
let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product.stop());

/** A request byte by byte as given; answers with everything that came back. */
const raw = (text: string, keepOpen = false) =>
  new Promise<string>((resolve, reject) => {
    const socket = connect(product.address!.port, "127.0.0.1", () => {
      socket.write(text);
    });
    let received = "";
    socket.setEncoding("utf8");
    socket.on("data", (chunk) => {
      received += chunk;
      if (keepOpen) socket.destroy();
    });
    socket.on("close", () => resolve(received));
    socket.on("error", reject);
  });

const send = (
  body: string | Uint8Array<ArrayBuffer>,
  type: string | undefined = "application/json",
  path = LOGIN,
  headers: Record<string, string> = {},
) =>
  fetch(`${product.url}${path}`, {
    method: "POST",
    headers: { "accept-language": "en", ...(type ? { "content-type": type } : {}), ...headers },
    body,
  }).then(async (response) => ({
    status: response.status,
    // biome-ignore lint/suspicious/noExplicitAny: answers are checked field by field
    body: (await response.json()) as any,
  }));

describe("routing", () => {
  test("an unknown route is answered in the envelope, Chinese by default, English on request", async () => {
    const chinese = await product.request("GET", "/nope");
    expect(chinese.status).toBe(404);
    expect(chinese.body).toMatchObject({ returnCode: 1004, message: "接口不存在：GET /nope" });
    const english = await product.request("GET", "/nope", { headers: { "accept-language": "en" } });
    expect(english.body.message).toBe("No such route: GET /nope");
    const weighted = await product.request("GET", "/nope", {
      headers: { "accept-language": "fr, zh;q=0.5, en;q=0.8" },
    });
    expect(weighted.body.message).toBe("No such route: GET /nope");
  });

  test("a wrong method names the right ones, in the body and in Allow", async () => {
    const answer = await product.request("GET", LOGIN);
    expect(answer).toMatchObject({ status: 405, body: { returnCode: 1005 } });
    expect(answer.headers.get("allow")).toBe("POST, OPTIONS");
  });

  test("OPTIONS tells the methods without running anything", async () => {
    const answer = await product.request("OPTIONS", "/index/");
    expect([answer.status, answer.headers.get("allow")]).toEqual([204, "GET, HEAD, OPTIONS"]);
    expect((await product.request("OPTIONS", "/nope")).status).toBe(404);
  });

  test("HEAD answers like GET, without the body", async () => {
    const [get, head] = [
      await product.request("GET", "/index"),
      await product.request("HEAD", "/index/"),
    ];
    expect(get.body).toMatchObject({ returnCode: 0, responseData: { name: "reelmesh" } });
    expect([head.status, head.body]).toEqual([200, undefined]);
    expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
  });

  test("a path that cannot be decoded, or climbs, finds nothing", async () => {
    for (const path of ["/%ff%zz", "/index/../../etc/passwd%00", "//index"])
      expect(await raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)).toMatch(
        /^HTTP\/1.1 404 /,
      );
  });

  test("a request id is echoed when it is one, else replaced", async () => {
    const given = await product.request("GET", "/index/", { headers: { "x-request-id": "abc-1" } });
    expect(given.headers.get("x-request-id")).toBe("abc-1");
    const odd = await product.request("GET", "/index/", { headers: { "x-request-id": "a<b>" } });
    expect(odd.headers.get("x-request-id")).toMatch(/^[\da-f-]{36}$/);
  });

  test("a token that nobody knows is refused even on a public route", async () => {
    const answer = await product.request("GET", "/index/", { token: "made-up" });
    expect(answer).toMatchObject({ status: 401, body: { returnCode: 1001 } });
  });
});

describe("bodies", () => {
  test("malformed JSON is refused with the place where it breaks", async () => {
    const answer = await send('{"username": "admin",\n  "password": }');
    expect(answer).toMatchObject({ status: 400, body: { returnCode: 1003 } });
    expect(answer.body.message).toContain("line 2, column 15");
    expect((await send('{"username": "adm')).body.message).toContain("line 1, column 14");
  });

  test.each([
    ["a list", "[1]"],
    ["null", "null"],
    ["a string", '"x"'],
    ["a number", "7"],
  ])("%s instead of an object is refused", async (kind, text) => {
    const answer = await send(text);
    expect(answer.status).toBe(400);
    expect(answer.body.message).toContain(`must be a JSON object, not ${kind}`);
  });

  test("an empty body counts as no fields, so that the missing ones are named", async () => {
    const answer = await send("");
    expect(answer.status).toBe(400);
    expect(answer.body.error.data.issues.map(({ path }: { path: string }) => path)).toEqual([
      "username",
      "password",
    ]);
  });

  test("more than 8 MB is refused by its announced size, and by what really comes", async () => {
    const big = JSON.stringify({ username: "a", password: "x".repeat(8 * 1024 * 1024) });
    expect(await send(big)).toMatchObject({ status: 413, body: { returnCode: 1007 } });
    const streamed = await fetch(`${product.url}${LOGIN}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: new Blob([big]).stream(),
      duplex: "half",
    } as RequestInit);
    expect(streamed.status).toBe(413);
  });

  test("endless nesting is refused", async () => {
    const bomb = `{"a":${"[".repeat(200_000)}${"]".repeat(200_000)}}`;
    const answer = await send(bomb);
    expect(answer.status).toBe(400);
    expect(answer.body.message).toContain("nested deeper than 64 levels");
  });

  test.each(["__proto__", "constructor", "prototype"])(
    "the name %s is refused in body, form and query",
    async (name) => {
      const answers = [
        await send(`{"x":{"${name}":{"isAdmin":true}}}`),
        await send(`${name}=1`, "application/x-www-form-urlencoded"),
        await send("{}", "text/plain", `${LOGIN}?${name}=1`),
      ];
      for (const answer of answers) {
        expect(answer.status).toBe(400);
        expect(answer.body.message).toContain(`the name ${name} is not allowed`);
      }
      expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
    },
  );

  test.each([
    ["text/plain", undefined],
    ["application/json; charset=gbk", undefined],
    ["multipart/form-data; boundary=x", undefined],
    ["application/json", "gzip"],
  ])("content type %s with encoding %s is not supported", async (type, encoding) => {
    const answer = await send("{}", type, LOGIN, encoding ? { "content-encoding": encoding } : {});
    expect(answer).toMatchObject({ status: 415, body: { returnCode: 1008 } });
  });

  test("bytes that are no UTF-8 are refused", async () => {
    const answer = await send(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]));
    expect(answer.body.message).toContain("not valid UTF-8");
  });

  test("a form body is read like JSON", async () => {
    const answer = await send(
      new URLSearchParams({
        username: "admin",
        password: product.config.ADMIN_PASSWORD,
      }).toString(),
      "application/x-www-form-urlencoded;charset=UTF-8",
    );
    expect(answer.status).toBe(200);
  });

  test("a field given twice is a list, and refused where one value is meant", async () => {
    const answer = await send(
      "username=a&username=b&password=x",
      "application/x-www-form-urlencoded",
    );
    expect(answer.status).toBe(400);
    expect(answer.body.error.data.issues[0].path).toBe("username");
  });

  test("validation messages are Chinese unless English is asked for", async () => {
    const answer = await product.request("POST", LOGIN, { body: { username: 1, password: "x" } });
    expect(answer.body.message).toMatch(/^参数错误：username: .*[一-鿿]/);
  });
});

describe("broken clients", () => {
  test("a request that is not HTTP gets 400 and the next client is served", async () => {
    expect(await raw("HELLO\r\n\r\n")).toMatch(/^HTTP\/1.1 400 /);
    expect((await product.request("GET", "/healthz")).body).toEqual({ status: "ok" });
  });

  test("a body cut off half way leaves nothing that blocks the stop", async () => {
    const other = await startProduct();
    const socket = connect(other.address!.port, "127.0.0.1");
    await new Promise<void>((resolve) => socket.once("connect", resolve));
    socket.on("error", () => undefined);
    socket.write(
      `POST ${LOGIN} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a`,
    );
    const idle = connect(other.address!.port, "127.0.0.1").on("error", () => undefined);
    await new Promise<void>((resolve) => idle.once("connect", resolve));
    socket.destroy();
    const closed = new Promise<void>((resolve) => idle.once("close", () => resolve()));
    await other.stop();
    await closed;
  });
});

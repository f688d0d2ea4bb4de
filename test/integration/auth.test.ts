import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";

const PASSWORD = "correct horse battery";
const LOGIN = "/auth/admin/login";
const LOGOUT = "/auth/admin/logout";

let product: Product;
beforeAll(async () => {
  product = await startProduct({ ADMIN_PASSWORD: PASSWORD });
});
afterAll(() => product.stop());

const login = (password = PASSWORD, username = "admin", at = product) =>
  at.request("POST", LOGIN, { body: { username, password }, headers: { "accept-language": "en" } });

describe("administrator login", () => {
  test("the right password gives a token that opens what administrators may do", async () => {
    const answer = await login();
    expect(answer).toMatchObject({
      status: 200,
      body: { returnCode: 0, responseData: { user: { username: "admin" } } },
    });
    const { token, expiresAt } = answer.body.responseData;
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(expiresAt - Date.now()).toBeGreaterThan(11 * 3_600_000);
    expect((await product.request("GET", LOGOUT, { token })).status).toBe(200);
  });

  test("a wrong password and an unknown user get the same answer", async () => {
    const [wrong, unknown] = [await login("wrong password"), await login("wrong password", "eve")];
    expect(wrong).toMatchObject({ status: 401, body: { returnCode: 1010 } });
    expect({ ...unknown.body, timestamp: 0 }).toEqual({ ...wrong.body, timestamp: 0 });
  });

  test("after logout the token is refused at once, and other sign-ins go on", async () => {
    const tokens = [await login(), await login()].map(({ body }) => body.responseData.token);
    await product.request("GET", LOGOUT, { token: tokens[0] });
    const refused = await product.request("GET", LOGOUT, { token: tokens[0] });
    expect(refused).toMatchObject({ status: 401, body: { error: { type: "UNAUTHENTICATED" } } });
    expect(refused.headers.get("www-authenticate")).toBe("Bearer");
    expect((await product.request("GET", LOGOUT, { token: tokens[1] })).status).toBe(200);
  });

  test("a token of another realm is told which one is needed", async () => {
    const answer = await product.request("GET", LOGOUT, {
      token: product.config.MCP_TOKEN,
      headers: { "accept-language": "en" },
    });
    expect(answer.status).toBe(403);
    expect(answer.body.message).toBe("Not permitted: needs admin, this token is of agent");
  });

  test("after five failures the account waits, other accounts and the right address do not", async () => {
    const tries = await Promise.all(Array.from({ length: 6 }, () => login("nope", "mallory")));
    const blocked = [...tries, await login("nope", "mallory")];
    expect(blocked.map(({ status }) => status)).toContain(429);
    expect(blocked.at(-1)?.headers.get("retry-after")).toMatch(/^\d+$/);
    expect((await login()).status).toBe(200);
  });

  test("unknown fields are named", async () => {
    const answer = await product.request("POST", LOGIN, {
      body: { username: "admin", password: PASSWORD, role: "root" },
    });
    expect(answer).toMatchObject({ status: 400, body: { returnCode: 1003 } });
    expect(answer.body.message).toContain("role");
  });
});

describe("administrator account", () => {
  test("survives a restart with its tokens; a changed ADMIN_PASSWORD changes it and ends them", async () => {
    const dir = await mkdtemp(join(tmpdir(), "reelmesh-auth-"));
    const run = async <T>(password: string, work: (running: Product) => Promise<T>) => {
      const running = await startProduct({ DATA_DIR: dir, ADMIN_PASSWORD: password });
      try {
        return await work(running);
      } finally {
        await running.stop();
      }
    };
    try {
      const token: string = await run("first password 1", async (running) => {
        const answer = await login("first password 1", "admin", running);
        return answer.body.responseData.token;
      });
      for (const file of ["records.sqlite", "records.sqlite-wal"]) {
        const bytes = await readFile(join(dir, file)).catch(() => Buffer.alloc(0));
        expect(bytes.includes(token)).toBe(false);
        expect(bytes.includes("first password 1")).toBe(false);
      }
      const kept = await run("first password 1", (running) =>
        running.request("GET", "/auth/admin/logout?probe=1", { token }),
      );
      expect(kept.status).toBe(200);
      await run("second password 2", async (running) => {
        expect((await login("first password 1", "admin", running)).status).toBe(401);
        const answer = await login("second password 2", "admin", running);
        expect(answer.status).toBe(200);
        expect((await running.request("GET", LOGOUT, { token })).status).toBe(401);
      });
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });
});

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";
import { serversForTests } from "../support/servers.ts";

const servers = await serversForTests("mongo");
const PASSWORD = "correct horse battery";
const BOARDS = "/aigc/admin/storyboard";

const running: Product[] = [];
afterEach(async () => {
  for (const product of running.splice(0)) await product.stop();
});
async function start(database: string): Promise<Product> {
  const product = await startProduct({
    SERVICES: "gateway,platform",
    MONGO_URL: servers.mongoUrl(database),
    ADMIN_PASSWORD: PASSWORD,
  });
  running.push(product);
  return product;
}
async function login(product: Product): Promise<string> {
  const body = { username: "admin", password: PASSWORD };
  const answer = await product.request("POST", "/auth/admin/login", { body });
  expect(answer.status).toBe(200);
  return answer.body.responseData.token;
}

servers.describe("the product on MongoDB", () => {
  test("records and sign-ins outlive the node and its directory", async () => {
    const first = await start("outlive");
    const token = await login(first);
    const created = await first.request("POST", BOARDS, { token, body: { title: "雨夜街头" } });
    expect(created.status).toBe(200);
    await first.stop();
    running.pop();
    const second = await start("outlive");
    const { id } = created.body.responseData;
    const found = await second.request("GET", `${BOARDS}?search=${encodeURIComponent("夜")}`, {
      token,
    });
    expect(found.body.responseData).toMatchObject({ total: 1, rows: [{ id, version: 1 }] });
    const changes = await Promise.all(
      ["a", "b", "c"].map((title) =>
        second.request("PATCH", BOARDS, { token, body: { id, version: 1, title } }),
      ),
    );
    expect(changes.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
  });

  test("what one node signs in another knows, and one that stops leaves the other its connection", async () => {
    const [one, other] = await Promise.all([start("shared"), start("shared")]);
    const token = await login(one!);
    const listed = await other!.request("GET", BOARDS, { token });
    expect(listed).toMatchObject({ status: 200, body: { responseData: { total: 0 } } });
    await one!.stop();
    running.splice(running.indexOf(one!), 1);
    const created = await other!.request("POST", BOARDS, { token, body: { title: "later" } });
    expect(created.status).toBe(200);
  });
});

test("an address without a server ends the start in one sentence and leaves nothing open", async () => {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-mongo-"));
  const env = { DATA_DIR: dir, MONGO_URL: "mongodb://bob:guess-work@127.0.0.1:1/x" };
  await expect(startProduct(env)).rejects.toThrow(
    /^MONGO_URL: no MongoDB server answers at mongodb:\/\/127\.0\.0\.1:1\/x \([^\n]*$/,
  );
  await rm(dir, { recursive: true });
});

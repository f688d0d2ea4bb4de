import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

const password = "password-of-admin";
const jobs = "/admin/scheduler/jobs";
let product: Product;
let token: string;

beforeAll(async () => {
  product = await startProduct({ ADMIN_PASSWORD: password, MCP_TOKEN: "token-of-the-agents" });
  const { body } = await product.request("POST", "/auth/admin/login", {
    body: { username: "admin", password },
  });
  token = body.responseData.token;
});
afterAll(() => product?.stop());

const send = async (method: string, path: string, body?: unknown, as = token) => {
  const answer = await product.request(method, path, { token: as, body });
  return { status: answer.status, data: answer.body.responseData, body: answer.body };
};
const stateOf = async (id: string) => (await send("GET", `${jobs}/${id}`)).data.state;

describe("jobs over HTTP, for operators", () => {
  test("a job is submitted, listed, read with its log, and the same key gives the same job", async () => {
    const request = { kind: "noop", payload: { ms: 1 }, idempotencyKey: "once" };
    const first = await send("POST", jobs, request);
    expect(first.data).toMatchObject({ kind: "noop", repeated: false });
    const { id } = first.data;
    expect((await send("POST", jobs, request)).data).toMatchObject({ id, repeated: true });
    await until(async () => (await stateOf(id)) === "success");
    const listed = await send("GET", `${jobs}?state=success&limit=5`);
    expect(listed.data.jobs.map((job: { id: string }) => job.id)).toContain(id);
    const log = await send("GET", `${jobs}/${id}/log`);
    expect(log.data.lines[0].text).toContain("Attempt 1 goes to");
  });

  test("a job that waits in a paused queue can be cancelled and started again", async () => {
    const queue = "held";
    expect((await send("POST", `/admin/scheduler/queues/${queue}/pause`)).data.paused).toBe(true);
    const { id } = (await send("POST", jobs, { kind: "noop", payload: {}, queue })).data;
    expect((await send("GET", "/admin/scheduler/stats")).data).toMatchObject({
      queues: { held: { pending: 1 } },
      paused: [queue],
    });
    expect((await send("POST", `${jobs}/${id}/cancel`, {})).data.state).toBe("cancelled");
    expect((await send("POST", `${jobs}/${id}/retry`)).data.state).toBe("pending");
    await send("POST", `/admin/scheduler/queues/${queue}/resume`);
    await until(async () => (await stateOf(id)) === "success");
  });

  test("the nodes tell their load", async () => {
    const { nodes } = (await send("GET", "/admin/scheduler/nodes")).data;
    expect(nodes).toHaveLength(1);
    expect(nodes[0]).toMatchObject({ slots: 1, draining: false });
  });

  test("nobody from outside chooses what is called as the system", async () => {
    const onSettled = { action: "auth.verify", params: {} };
    const answer = await send("POST", jobs, { kind: "noop", payload: {}, onSettled });
    expect(answer.status).toBe(403);
  });

  test("who is no administrator is refused, and an unknown kind or job is named", async () => {
    expect((await send("GET", jobs, undefined, "token-of-the-agents")).status).toBe(403);
    const unknown = await send("POST", jobs, { kind: "nothing", payload: {} });
    expect([unknown.status, unknown.body.message]).toEqual([
      400,
      expect.stringContaining("nothing"),
    ]);
    const id = "01890000-0000-7000-8000-000000000000";
    expect((await send("GET", `${jobs}/${id}`)).status).toBe(404);
  });
});

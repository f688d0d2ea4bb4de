import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";

const path = "/aigc/admin/storyboard";
const scene = (id: string, text = "") => ({ id, text, durationMs: 2000 });

let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product.stop());

const send = (method: string, target: string, body?: unknown) =>
  product.request(method, target, {
    token: product.config.MCP_TOKEN,
    body,
    headers: { "accept-language": "en" },
  });
const make = async (fields: object) => {
  const answer = await send("POST", path, { title: "untitled", ...fields });
  expect(answer.body).toMatchObject({ returnCode: 0 });
  return answer.body.responseData;
};
const titles = (answer: { body: { responseData: { rows: { title: string }[] } } }) =>
  answer.body.responseData.rows.map(({ title }) => title);

describe("resource routes, on storyboards", () => {
  test("POST stores with defaults; both GET forms answer the record", async () => {
    const made = await make({ title: "雨夜", scenes: [scene("s1", "下雨了")] });
    expect(made).toMatchObject({ version: 1, language: "zh", status: "draft" });
    expect(made.scenes[0]).toEqual({ id: "s1", text: "下雨了", visual: "", durationMs: 2000 });
    expect((await send("GET", `${path}/${made.id}`)).body.responseData).toEqual(made);
    expect((await send("GET", `${path}?id=${made.id}`)).body.responseData).toEqual(made);
  });

  test("an id of the caller's own makes POST safe to repeat", async () => {
    await make({ id: "board-1", title: "first" });
    const again = await send("POST", path, { id: "board-1", title: "second" });
    expect([again.status, again.body.returnCode]).toEqual([409, 1006]);
    expect((await send("GET", `${path}/board-1`)).body.responseData.title).toBe("first");
  });

  test("PATCH works with the id in the path and in the body, and changes only what it names", async () => {
    const made = await make({ title: "before", idea: "rain", script: "text" });
    const one = await send("PATCH", `${path}/${made.id}`, { title: "between" });
    expect(one.body.responseData).toMatchObject({ title: "between", idea: "rain", version: 2 });
    const two = await send("PATCH", path, { id: made.id, idea: null });
    expect(two.body.responseData).toMatchObject({ title: "between", script: "text", version: 3 });
    expect(two.body.responseData).not.toHaveProperty("idea");
    expect(two.body.responseData).toMatchObject({ language: "zh", status: "draft" });
  });

  test("PATCH with an old version is refused, naming both versions", async () => {
    const made = await make({});
    await send("PATCH", `${path}/${made.id}`, { title: "theirs", version: 1 });
    const late = await send("PATCH", `${path}/${made.id}`, { title: "mine", version: 1 });
    expect(late.status).toBe(409);
    expect(late.body.message).toMatch(/version 2, expected 1/);
    expect((await send("GET", `${path}/${made.id}`)).body.responseData.title).toBe("theirs");
  });

  test.each([
    ["an unknown field", { title: "x", colour: 1 }, /colour/],
    ["a field of the envelope", { title: "x", createdAt: 1 }, /createdAt/],
    ["a missing title", {}, /title/],
    ["a wrong status", { title: "x", status: "done" }, /status/],
    [
      "a negative duration",
      { title: "x", scenes: [{ id: "a", durationMs: -1 }] },
      /scenes\[0\]\.durationMs/,
    ],
    [
      "two scenes with one id",
      { title: "x", scenes: [scene("a"), scene("a")] },
      /scenes: every scene/,
    ],
    ["an id that climbs", { title: "x", id: "../etc" }, /id: must be an id/],
  ])("%s is refused by its path and stores nothing", async (_, body, message) => {
    const count = async () => (await send("GET", path)).body.responseData.total;
    const before = await count();
    const answer = await send("POST", path, body);
    expect([answer.status, answer.body.returnCode]).toEqual([400, 1003]);
    expect(answer.body.message).toMatch(message);
    expect(await count()).toBe(before);
  });

  test("DELETE takes one id in the path, in the query or body, or a list", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 6; n += 1) ids.push((await make({})).id);
    const removed = async (target: string, body?: unknown) =>
      (await send("DELETE", target, body)).body.responseData;
    expect(await removed(`${path}/${ids[0]}`)).toEqual({ removed: 1, ids: [ids[0]] });
    expect(await removed(`${path}?id=${ids[1]}`)).toEqual({ removed: 1, ids: [ids[1]] });
    expect(await removed(path, { id: ids[2] })).toEqual({ removed: 1, ids: [ids[2]] });
    expect(await removed(`${path}?ids=${ids[3]},${ids[0]}`)).toEqual({ removed: 1, ids: [ids[3]] });
    expect(await removed(path, { ids: [ids[4], ids[5]] })).toEqual({
      removed: 2,
      ids: ids.slice(4),
    });
    const gone = await send("DELETE", `${path}/${ids[0]}`);
    expect([gone.status, gone.body.message]).toEqual([404, `storyboard ${ids[0]} not found`]);
    const neither = await send("DELETE", path);
    expect([neither.status, neither.body.returnCode]).toEqual([400, 1003]);
  });

  test("a record that does not exist is 404 in every form", async () => {
    for (const [method, target, body] of [
      ["GET", `${path}/nobody`],
      ["GET", `${path}?id=nobody`],
      ["PATCH", `${path}/nobody`, { title: "x" }],
      ["DELETE", `${path}/nobody`],
    ] as const)
      expect([method, (await send(method, target, body)).body.returnCode]).toEqual([method, 1004]);
  });

  test("without a token 401", async () => {
    expect((await product.request("GET", path)).body).toMatchObject({ returnCode: 1001 });
  });
});

describe("resource lists, on storyboards", () => {
  const language = "xx-test";
  const where = `language=${language}`;
  beforeAll(async () => {
    for (const [n, title] of ["Beta 日出", "alpha 雨夜", "Gamma 夜雨", "delta"].entries())
      await make({ title, language, status: n % 2 === 0 ? "ready" : "draft", idea: `idea ${n}` });
  });

  test("pages count from 1, newest first, with totals", async () => {
    const page = await send("GET", `${path}?${where}&pageSize=3&page=2`);
    expect(page.body.responseData).toMatchObject({ total: 4, page: 2, pageSize: 3, totalPages: 2 });
    expect(titles(page)).toEqual(["Beta 日出"]);
  });

  test("sort takes fields with a dash for descending", async () => {
    expect(titles(await send("GET", `${path}?${where}&sort=status,-title`))).toEqual([
      "delta",
      "alpha 雨夜",
      "Gamma 夜雨",
      "Beta 日出",
    ]);
  });

  test.each([
    ["status=ready", ["Gamma 夜雨", "Beta 日出"]],
    ["status.ne=ready", ["delta", "alpha 雨夜"]],
    ["status.in=ready,draft&title.gte=a", ["delta", "alpha 雨夜"]],
    ["title.gt=Beta%20%E6%97%A5%E5%87%BA&title.lt=a", ["Gamma 夜雨"]],
    ["createdAt.gte=1&createdAt.lt=2", []],
    ["search=夜", ["Gamma 夜雨", "alpha 雨夜"]],
    ["search=雨夜", ["alpha 雨夜"]],
    ["search=%E9%9B%A8%20gam", ["Gamma 夜雨"]],
    ["search=idea%202", ["Gamma 夜雨"]],
  ])("%s answers %j", async (query, expected) => {
    expect(titles(await send("GET", encodeURI(decodeURI(`${path}?${where}&${query}`))))).toEqual(
      expected,
    );
  });

  test.each([
    ["colour=red", "colour"],
    ["script=x", "script"],
    ["status=done", "status"],
    ["status[$ne]=x", "status"],
    ["sort=idea", "idea"],
    ["page=0", "page"],
    ["pageSize=201", "pageSize"],
    ["pageSize=many", "pageSize"],
    ["createdAt.gte=yesterday", "createdAt.gte"],
  ])("%s is refused by name", async (query, name) => {
    const answer = await send("GET", `${path}?${query}`);
    expect([answer.status, answer.body.returnCode]).toEqual([400, 1003]);
    expect(answer.body.message).toContain(name);
  });
});

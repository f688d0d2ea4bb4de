import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { z } from "zod";
import { authLimits } from "../../services/auth/config.ts";
import { type Failures, failed, waitOf } from "../../services/auth/login-throttle.policy.ts";
import { languageOf } from "../../services/gateway/answer.ts";
import { coerceQuery } from "../../services/gateway/coerce-query.ts";
import { filterText } from "../../services/gateway/input-filter.policy.ts";
import { fieldsOf } from "../../services/gateway/request-fields.ts";
import { Router } from "../../services/gateway/router.ts";

describe("input filter", () => {
  test("what has a meaning in HTML becomes an entity, control characters go, line ends stay", () => {
    expect(filterText(`<b a="1" c='2'>&\0\u0007\u001b\t\r\n片`)).toBe(
      "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\t\r\n片",
    );
  });

  test("nothing that could open a tag or leave an attribute gets through, whatever comes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: their absence is the point
        expect(filterText(text)).not.toMatch(/[<>"'\u0000-\u0008]/);
      }),
    );
  });
});

describe("login throttle", () => {
  const throttled = (failures: number, at = 0) =>
    Array.from({ length: failures }).reduce<Failures | undefined>(
      (state) => failed(state, at),
      undefined,
    );

  test("the first five failures cost no wait, the sixth two seconds, then twice as much each", () => {
    const waits = [1, 5, 6, 7, 8].map((count) => waitOf(throttled(count), 0));
    expect(waits).toEqual([0, 0, 2_000, 4_000, 8_000]);
  });

  test("the wait has a ceiling, and ends", () => {
    expect(waitOf(throttled(1_000), 0)).toBe(authLimits.waitMsMax);
    expect(waitOf(throttled(1_000), authLimits.waitMsMax)).toBe(0);
  });

  test("failures are forgotten after half an hour of silence", () => {
    expect(failed(throttled(9, 0), authLimits.forgetMs).count).toBe(1);
    expect(failed(throttled(9, 0), authLimits.forgetMs - 1).count).toBe(10);
  });
});

describe("language of an answer", () => {
  test.each([
    [undefined, "zh"],
    ["", "zh"],
    ["en", "en"],
    ["en-GB,en;q=0.9", "en"],
    ["zh-CN,zh;q=0.9,en;q=0.8", "zh"],
    ["fr,en;q=0.2,zh;q=0.1", "en"],
    ["fr", "zh"],
    ["en;q=0, zh", "zh"],
    ["*", "zh"],
  ] as const)("Accept-Language %j gives %s", (header, language) => {
    expect(languageOf(header)).toBe(language);
  });
});

describe("fields of a query or form", () => {
  const read = (text: string) =>
    fieldsOf(new URLSearchParams(text), { filter: false, where: "query" });

  test("a repeated name and one with brackets become a list", () => {
    expect(read("a=1&a=2&b[]=3&c=4")).toEqual({ a: ["1", "2"], b: ["3"], c: "4" });
  });

  test("more than 500 are refused", () => {
    expect(() => read(Array.from({ length: 501 }, (_, n) => `f${n}=1`).join("&"))).toThrow(
      "more than 500 fields",
    );
  });
});

describe("text to the types of a schema", () => {
  const input = z.object({
    page: z.int().optional(),
    live: z.boolean().optional(),
    ids: z.array(z.int()).optional(),
    name: z.string().optional(),
    either: z.union([z.string(), z.number()]).optional(),
  });

  test("numbers, truth values and lists are converted; text that looks like one stays text", () => {
    expect(
      coerceQuery(input, { page: "2", live: "true", ids: "1,2", name: "007", either: "5" }),
    ).toEqual({ page: 2, live: true, ids: [1, 2], name: "007", either: "5" });
  });

  test("what cannot be converted stays, so that validation names it", () => {
    expect(coerceQuery(input, { page: "two", live: "maybe", extra: "1" })).toEqual({
      page: "two",
      live: "maybe",
      extra: "1",
    });
    expect(coerceQuery(input, { page: "" })).toEqual({ page: "" });
  });
});

describe("router", () => {
  const raw = (method: "GET" | "PUT", path: `/${string}`) => ({
    method,
    path,
    access: "public" as const,
    summary: "",
    handle: () => undefined,
  });
  const router = new Router(
    [],
    [
      raw("GET", "/objects/{bucket}/{key*}"),
      raw("PUT", "/objects/{bucket}/{key*}"),
      raw("GET", "/jobs/{id}"),
      raw("GET", "/jobs/latest"),
    ],
  );

  test("a rest placeholder keeps slashes, decodes each part once and keeps a slash at the end", () => {
    expect(router.resolve("GET", "/objects/b/a/%E7%89%87%20x/c%252e").params).toEqual({
      bucket: "b",
      key: "a/片 x/c%2e",
    });
    expect(router.resolve("GET", "/objects/b/folder/").params["key"]).toBe("folder/");
  });

  test("a fixed part goes before a placeholder, HEAD goes to GET", () => {
    expect(router.resolve("HEAD", "/jobs/latest").params).toEqual({});
    expect(router.resolve("GET", "/jobs/7").params).toEqual({ id: "7" });
  });

  test("the wrong method names the right ones; the wrong path is not found", () => {
    expect(() => router.resolve("POST", "/objects/b/k")).toThrow(
      "POST is not allowed on /objects/b/k; allowed: GET, PUT, HEAD, OPTIONS",
    );
    expect(() => router.resolve("GET", "/object")).toThrow("No such route: GET /object");
  });

  test("two routes on one method and path stop the start", () => {
    expect(() => new Router([], [raw("GET", "/a/{x}"), raw("GET", "/a/{x}")])).toThrow();
  });
});

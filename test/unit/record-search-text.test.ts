import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { holdsPhrase, phrasesOf, searchLimits, tokensOf } from "../../lib/store/search-text.ts";

const finds = (text: string, query: string) =>
  phrasesOf(query).every((phrase) => holdsPhrase(tokensOf(text), phrase));

describe("tokens of a text", () => {
  test.each([
    ["雨夜街头", ["雨", "夜", "街", "头"]],
    ["vlog日记2026", ["vlog", "日", "记", "2026"]],
    ["Hello, World!", ["hello", "world"]],
    ["Ｆｕｌｌ　ｗｉｄｔｈ", ["full", "width"]],
    ["Café déjà", ["cafe", "deja"]],
    ["カメラ、テスト", ["カ", "メ", "ラ", "テ", "ス", "ト"]],
    ["한국어", ["한", "국", "어"]],
    ["app_id-7", ["app", "id", "7"]],
    ["🎬 …!", []],
  ])("%s becomes %j", (text, tokens) => {
    expect(tokensOf(text)).toEqual(tokens);
  });

  test("a token is cut and a text ends at its bound", () => {
    expect(tokensOf("x".repeat(1000))[0]).toHaveLength(searchLimits.tokenCharsMax);
    expect(tokensOf("字".repeat(60_000))).toHaveLength(searchLimits.textTokensMax);
  });
});

describe("search", () => {
  test.each([
    ["手机拍摄的日出", "机", true],
    ["手机拍摄的日出", "日出", true],
    ["手机拍摄的日出", "出日", false],
    ["手机拍摄的日出", "手出", false],
    ["手机拍摄的日出", "手 出", true],
    ["iPhone手机", "iphone手", true],
    ["Photography", "photo", true],
    ["Photography", "graphy", false],
    ["one two three", "two thr", true],
    ["one two three", "tw three", true],
  ])("in %s, %s is found: %s", (text, query, found) => {
    expect(finds(text, query)).toBe(found);
  });

  test("every run of characters of a Chinese text is found in it", () => {
    const chinese = fc
      .array(fc.constantFrom(..."雨夜街头日出手机拍摄"), { minLength: 1, maxLength: 20 })
      .map((chars) => chars.join(""));
    fc.assert(
      fc.property(chinese, fc.nat(19), fc.integer({ min: 1, max: 4 }), (text, from, length) => {
        const part = text.slice(from % text.length, (from % text.length) + length);
        expect(finds(text, part)).toBe(true);
      }),
      { seed: 7 },
    );
  });

  test("Chinese is found exactly where the text holds the run of characters", () => {
    const chars = fc
      .array(fc.constantFrom(..."雨夜街"), { maxLength: 8 })
      .map((all) => all.join(""));
    fc.assert(
      fc.property(chars, chars, (text, query) => {
        expect(finds(text, query)).toBe(text.includes(query));
      }),
      { seed: 8 },
    );
  });

  test("a query of any length becomes a bounded number of tokens", () => {
    const tokens = phrasesOf("字 word ".repeat(500)).flatMap((phrase) => phrase.tokens);
    expect(tokens).toHaveLength(searchLimits.queryTokensMax);
  });
});

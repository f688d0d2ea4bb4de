import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { asAppError } from "../../lib/errors.ts";
import { escapeAss } from "../../services/compose/timeline/ass.plan.ts";
import { escapeFilterValue } from "../../services/compose/timeline/graph-parts.plan.ts";
import { breakLines, textWidth } from "../../services/compose/timeline/line-break.plan.ts";
import { parseSrt } from "../../services/compose/timeline/srt.plan.ts";

describe("line breaking", () => {
  test("parts Chinese anywhere but never begins a line with a mark that closes", () => {
    expect(breakLines("早安，来自大海的问候，今天也要好好吃早餐哦", 12)).toEqual([
      "早安，来自大海的问候，",
      "今天也要好好吃早餐哦",
    ]);
    expect(breakLines("一二三四五六。", 6).every((line) => !line.startsWith("。"))).toBe(true);
    expect(breakLines("他说“你好吗”然后走了", 5).every((line) => !/^”|“$/.test(line))).toBe(true);
  });

  test("keeps Latin words whole and makes lines of about one length", () => {
    expect(breakLines("Stay one more day and let the sun find you", 16)).toEqual([
      "Stay one more day and",
      "let the sun find you",
    ]);
  });

  test("mixes both, and keeps the breaks that somebody wrote", () => {
    expect(breakLines("第一行\nsecond line", 20)).toEqual(["第一行", "second line"]);
    expect(breakLines("使用 reelmesh 制作短视频", 7)).toEqual(["使用 reelmesh", "制作短视频"]);
  });

  test("cuts a word that no line could hold", () => {
    const lines = breakLines("a".repeat(60), 10);
    expect(lines.join("")).toBe("a".repeat(60));
    expect(lines.every((line) => textWidth(line) <= 10)).toBe(true);
  });

  test("of any text keeps every letter and stays within the width", () => {
    const letters = fc.constantFrom(..."早安你好，。“”（）abc WX.,!?\\{}\n\t1");
    const text = fc.array(letters, { maxLength: 60 }).map((all) => all.join(""));
    fc.assert(
      fc.property(text, fc.integer({ min: 4, max: 20 }), (words, width) => {
        const lines = breakLines(words, width);
        expect(lines.join("").replace(/\s/g, "")).toBe(words.replace(/\s/g, ""));
        for (const line of lines) expect(textWidth(line)).toBeLessThanOrEqual(width + 1e-6);
      }),
      { numRuns: 300, seed: 21 },
    );
  });
});

describe("text in a subtitle script", () => {
  test("of any kind neither opens commands nor begins a line", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 80 }), (text) => {
        const escaped = escapeAss(text);
        expect(escaped).not.toMatch(/[\n\r]/);
        // Every brace is taken literally, and no backslash stands before a letter that it gives a meaning.
        expect(escaped).not.toMatch(/(?<!\\)[{}]/);
        expect(escaped).not.toMatch(/\\[Nnh]/);
      }),
      { numRuns: 500, seed: 22 },
    );
  });
  test("a path in a filter is escaped for both readings", () => {
    expect(escapeFilterValue("/a b/it's:[x],c;d\\e")).toBe(
      String.raw`/a b/it\\\'s\\:\[x\]\,c\;d\\\\e`,
    );
  });
});

describe("an SRT file", () => {
  test("with a byte order mark, Windows line ends, marks and no last empty line is read", () => {
    const srt =
      "\uFEFF1\r\n00:00:01,200 --> 00:00:02,900 X1:1\r\n<i>Good</i> morning\r\n{\\an8}from the sea.\r\n\r\n2\r\n00:01:05.5 --> 01:00:06.000\r\n早安\r\n\r\n3\r\n00:00:01,000 --> 00:00:02,000\r\n";
    expect(parseSrt(srt, "p", 10)).toEqual([
      { start: 1.2, end: 2.9, text: "Good morning\nfrom the sea." },
      { start: 65.5, end: 3606, text: "早安" },
    ]);
  });
  test.each([
    { srt: "1\n00:00:xx,000 --> 00:00:02,000\na", reason: /^p: line 2 of the SRT is no time/ },
    {
      srt: "1\n00:00:03,000 --> 00:00:02,000\na",
      reason: /^p: line 2 .* end must be after the start/,
    },
    { srt: "hello", reason: /^p: the SRT has no subtitle/ },
    { srt: "00:01 --> 00:02", reason: /^p: line 1/ },
    {
      srt: "00:00:01,000 --> 00:00:02,000\na\n\n".repeat(3),
      reason: /^p: the SRT has more than 2 subtitles/,
    },
  ])("that is wrong is refused by line: $reason", ({ srt, reason }) => {
    let error: unknown;
    try {
      parseSrt(srt, "p", 2);
    } catch (thrown) {
      error = thrown;
    }
    expect(asAppError(error)?.data.reason).toMatch(reason);
  });
});

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { restoreUrl, restoreUrls } from "../../lib/restore-urls.ts";

describe("ampersands in URLs", () => {
  test("an escaped ampersand of a presigned URL is restored, once or more often escaped, in any notation", () => {
    const signed = "https://oss.example.com/a.mp4?Expires=1&Signature=ab%2Fc&x=2";
    for (const entity of ["&amp;", "&amp;amp;", "&#38;", "&#x26;", "&AMP;"])
      expect(restoreUrl(signed.replaceAll("&", entity))).toBe(signed);
  });

  test("a URL without entities keeps every byte", () => {
    fc.assert(
      fc.property(fc.webUrl({ withQueryParameters: true, withFragments: true }), (url) => {
        fc.pre(!/&(amp|#)/i.test(url));
        expect(restoreUrl(url)).toBe(url);
      }),
    );
  });

  test("text that is not a URL keeps its entities", () => {
    for (const text of [
      "Salt &amp; Pepper",
      "see https://a.example/?x=1&amp;y=2 for more",
      "&amp;",
    ])
      expect(restoreUrl(text)).toBe(text);
  });

  test("strings at any depth are restored and the given value stays as it was", () => {
    const given = {
      tracks: [{ clips: [{ src: "https://a.example/?x=1&amp;y=2", text: "A &amp; B" }] }],
      width: 2,
      none: null,
    };
    const copy = structuredClone(given);
    expect(restoreUrls(given)).toEqual({
      tracks: [{ clips: [{ src: "https://a.example/?x=1&y=2", text: "A &amp; B" }] }],
      width: 2,
      none: null,
    });
    expect(given).toEqual(copy);
  });
});

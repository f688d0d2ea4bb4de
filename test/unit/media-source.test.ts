import { describe, expect, test } from "@jest/globals";
import { readSource, type SourceContext } from "../../services/compose/media/source.policy.ts";

const context: SourceContext = {
  bucket: "reelmesh",
  ownOrigins: ["https://video.example.org", "http://127.0.0.1:3000"],
  bucketUrl: "https://cdn.example.org/media",
};
const read = (src: string, more: Partial<SourceContext> = {}) =>
  readSource(src, { ...context, ...more });

describe("sources as clients write them", () => {
  test("a plain key is an object of the default bucket", () => {
    expect(read("uploads/旅行 1.mp4")).toEqual({
      type: "object",
      bucket: "reelmesh",
      key: "uploads/旅行 1.mp4",
    });
  });

  test("oss:// names bucket and key", () => {
    expect(read("oss://other-bucket/a/b.png")).toEqual({
      type: "object",
      bucket: "other-bucket",
      key: "a/b.png",
    });
  });

  test("&amp; in a signed link becomes & again", () => {
    expect(read("https://host.example/a.mp4?Expires=1&amp;Signature=x%2By")).toEqual({
      type: "url",
      url: "https://host.example/a.mp4?Expires=1&Signature=x%2By",
      host: "host.example",
    });
  });

  test.each([
    "https://video.example.org/objects/reelmesh/a%20b.mp4?sig=1",
    "http://127.0.0.1:3000/objects/reelmesh/a%20b.mp4",
    "https://cdn.example.org/media/a%20b.mp4",
  ])("the product's own link %s is read from storage", (url) => {
    expect(read(url)).toEqual({ type: "object", bucket: "reelmesh", key: "a b.mp4" });
  });

  test("with a port that is picked at start, any port of the own host counts", () => {
    const own = "http://127.0.0.1:45123/objects/reelmesh/a.mp4";
    expect(read(own)).toMatchObject({ type: "url" });
    expect(read(own, { anyPort: true })).toMatchObject({ type: "object", key: "a.mp4" });
  });

  test("what FFmpeg would take for a protocol is just the name of an object", () => {
    expect(read("concat:a.mp4|b.mp4")).toMatchObject({ type: "object", key: "concat:a.mp4|b.mp4" });
  });

  test.each([
    ["", "empty"],
    ["   ", "empty"],
    ["../secret.mp4", "part . or .."],
    ["uploads/../../etc/passwd", "part . or .."],
    ["uploads\\..\\x.mp4", "part . or .."],
    ["/etc/passwd", "path on some machine"],
    ["oss://reelmesh//etc/passwd", "path on some machine"],
    ["oss://reelmesh/", "key is empty"],
    ["oss://UPPER/a.mp4", "not a bucket name"],
    ["oss://a.mp4", "oss://bucket/key"],
    ["file:///etc/passwd", "file:// is not supported"],
    ["file:/etc/passwd", "give http"],
    ["C:\\video.mp4", "give http"],
    ["data:image/png;base64,AAAA", "give http"],
    ["ftp://host.example/a.mp4", "ftp:// is not supported"],
    ["http://", "cannot be parsed"],
    ["https://user:pass@host.example/a.mp4", "user name or password"],
    ["http://127.0.0.1:3000/objects/reelmesh/..%2f..%2fetc", "part . or .."],
    ["a\u0000b.mp4", "control characters"],
    [`https://host.example/${"a".repeat(9000)}`, "longer than"],
  ])("%j is refused with a reason", (src, reason) => {
    expect(read(src)).toMatchObject({ reason: expect.stringContaining(reason) });
  });

  describe("links that the product's own S3 server signed", () => {
    const endpoints = ["http://s3.internal:9000", "https://media.example.org/s3"];
    const at = (src: string, addressing: "path" | "virtual") =>
      read(src, { s3: { endpoints, addressing } });
    const object = { type: "object", bucket: "reelmesh", key: "a b.mp4" };
    const signed = "a%20b.mp4?X-Amz-Signature=1";

    test.each([
      ["path", `http://s3.internal:9000/reelmesh/${signed}`],
      ["path", `https://media.example.org/s3/reelmesh/${signed}`],
      ["virtual", `http://reelmesh.s3.internal:9000/${signed}`],
      ["virtual", `http://s3.internal:9000/reelmesh/${signed}`],
    ] as const)("by %s are objects: %s", (addressing, src) => {
      expect(at(src, addressing)).toEqual(object);
    });

    test.each([
      `http://s3.internal:9001/reelmesh/${signed}`,
      `https://s3.internal:9000/reelmesh/${signed}`,
      `https://media.example.org/other/reelmesh/${signed}`,
      `http://reelmesh.s3.internal:9000/${signed}`,
      `http://s3.internal:9000.evil.example/reelmesh/${signed}`,
      "http://s3.internal:9000/",
    ])("anything else is a foreign address: %s", (src) => {
      expect(at(src, "path")).not.toMatchObject({ type: "object" });
    });

    test("a path that climbs out of the bucket is refused", () => {
      expect(at("http://s3.internal:9000/reelmesh/a/..%2f..%2fb.mp4", "path")).toHaveProperty(
        "reason",
      );
    });
  });
});

import { expect, test } from "@jest/globals";
import { readSignature } from "../../services/compose/media/media-signature.policy.ts";
import { readFacts } from "../../services/compose/media/probe-facts.policy.ts";

/** The start of an extended WebP file with these feature flags. */
const webp = (flags: number) =>
  Buffer.concat([Buffer.from("RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0", "latin1"), Buffer.of(flags, 0, 0)]);

test("an animated WebP is refused by name, one with transparency is not", () => {
  expect(readSignature(webp(0x02))).toMatchObject({
    reason: "it is an animated WebP; convert it to GIF or MP4",
  });
  expect(readSignature(webp(0x10))).toMatchObject({ kind: "image", name: "WebP" });
});

test("a picture that FFmpeg gives no size, as of 20000x20000 pixels, is called damaged or far too large", () => {
  const png = readSignature(Buffer.of(0x89, 0x50, 0x4e, 0x47));
  if ("reason" in png) throw new Error(png.reason);
  const probed = { streams: [{ index: 0, codec_type: "video", width: 0, height: 0 }] };
  expect(readFacts(probed, png, "")).toMatchObject({
    reason: expect.stringContaining("too large"),
  });
});

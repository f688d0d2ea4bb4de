import { execFile } from "node:child_process";
import { readFile, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { findFfmpeg } from "../../services/compose/media/ffmpeg.ts";
import { type ProbeOptions, probe } from "../../services/compose/media/probe.ts";
import { openToolsBench, type ToolsBench } from "../support/executor-tools.ts";
import { mediaMaker } from "../support/lavfi.ts";

let bench: ToolsBench;
let maker: Awaited<ReturnType<typeof mediaMaker>>;
beforeAll(async () => {
  bench = await openToolsBench();
  maker = await mediaMaker(bench.config);
});
afterAll(() => bench.close());

const at = (name: string) => join(bench.dir, name);
const look = (name: string, expected?: ProbeOptions["expected"]) =>
  probe(at(name), bench.tools, { clip: "tracks[0].clips[1]", expected });

/** A minimal Exif block with one orientation, put behind the start of a JPEG. */
async function withOrientation(source: string, target: string, orientation: number) {
  const jpeg = await readFile(at(source));
  const exif = Buffer.from(
    "457869660000" + "4d4d002a00000008" + "0001" + "011200030000000100000000" + "00000000",
    "hex",
  );
  exif.writeUInt16BE(orientation, 6 + 8 + 2 + 8);
  const head = Buffer.from([0xff, 0xe1, 0, 0]);
  head.writeUInt16BE(exif.length + 2, 2);
  await writeFile(at(target), Buffer.concat([jpeg.subarray(0, 2), head, exif, jpeg.subarray(2)]));
}

/** Average brightness of the four quarters of what a file shows after its upright filters. */
async function quarters(name: string, filters: string): Promise<number[]> {
  const { ffmpeg } = await findFfmpeg(bench.config);
  const { stdout } = await promisify(execFile)(
    ffmpeg,
    // biome-ignore format: option and value side by side
    ["-v", "error", "-noautorotate", "-i", at(name), "-frames:v", "1",
      "-vf", `${filters ? `${filters},` : ""}scale=2:2:flags=area,format=gray`, "-f", "rawvideo", "-"],
    { encoding: "buffer" },
  );
  return [...stdout];
}

describe("what a file is", () => {
  test("a video with sound", async () => {
    await maker.video(at("v.mp4"));
    expect(await look("v.mp4", "video")).toMatchObject({
      kind: "video",
      width: 160,
      height: 90,
      durationMs: 1000,
      frames: 25,
      fps: { num: 25, den: 1 },
      vfr: false,
      hasAudio: true,
      audio: { channels: 1 },
      rotation: 0,
    });
  });

  test("a video without sound, of odd size", async () => {
    await maker.make(
      "-f",
      "lavfi",
      "-i",
      "testsrc=s=161x91:d=1",
      "-c:v",
      "libx264",
      "-pix_fmt",
      "yuv444p",
      at("odd.mkv"),
    );
    const facts = await look("odd.mkv", "video");
    expect(facts).toMatchObject({ width: 161, height: 91, hasAudio: false });
    expect(facts.audio).toBeUndefined();
  });

  test("sound in mono and stereo, whatever its container", async () => {
    await maker.sound(at("a.mp3"));
    await maker.make("-f", "lavfi", "-i", "sine=d=1", "-ac", "2", at("a.wav"));
    expect(await look("a.mp3", "audio")).toMatchObject({
      kind: "audio",
      width: 0,
      audio: { channels: 1 },
    });
    expect(await look("a.wav", "audio")).toMatchObject({ kind: "audio", audio: { channels: 2 } });
  });

  test("variable frame rate is noticed", async () => {
    await maker.video(at("even.mp4"), "160x90", 2);
    await maker.make(
      "-i",
      at("even.mp4"),
      "-vf",
      "select=not(mod(n\\,3))+not(mod(n\\,7))",
      "-fps_mode",
      "vfr",
      at("vfr.mp4"),
    );
    expect(await look("vfr.mp4")).toMatchObject({ vfr: true, durationMs: expect.any(Number) });
  });

  test.each(["png", "jpg", "webp", "bmp", "tif"])("a still image as %s", async (extension) => {
    await maker.image(at(`i.${extension}`));
    expect(await look(`i.${extension}`, "image")).toMatchObject({
      kind: "image",
      width: 160,
      height: 90,
      durationMs: 0,
      hasAudio: false,
    });
  });

  test("a GIF moves, and may stand where an image is wanted", async () => {
    await maker.make("-f", "lavfi", "-i", "testsrc2=s=64x64:r=10:d=1", at("a.gif"));
    expect(await look("a.gif", "image")).toMatchObject({ kind: "video", frames: 10 });
  });

  test("pixels that are not square are told", async () => {
    await maker.make(
      "-f",
      "lavfi",
      "-i",
      "testsrc2=s=160x90:d=0.2,setsar=4/3",
      "-c:v",
      "libx264",
      at("sar.mp4"),
    );
    expect(await look("sar.mp4")).toMatchObject({ pixelAspect: { num: 4, den: 3 } });
  });
});

describe("pictures that lie on their side", () => {
  // Bright top left quarter, so that each turn and mirror shows.
  const corner = "color=black:s=160x90:r=25:d=0.2,drawbox=w=80:h=45:color=white:t=fill";

  test.each([
    [1, [255, 0, 0, 0]],
    [2, [0, 255, 0, 0]],
    [3, [0, 0, 0, 255]],
    [4, [0, 0, 255, 0]],
    [5, [255, 0, 0, 0]],
    [6, [0, 255, 0, 0]],
    [7, [0, 0, 0, 255]],
    [8, [0, 0, 255, 0]],
  ])("a JPEG with Exif orientation %i is set upright", async (orientation, expected) => {
    await maker.make("-f", "lavfi", "-i", corner, "-frames:v", "1", at("corner.jpg"));
    const name = `turned-${orientation}.jpg`;
    await withOrientation("corner.jpg", name, orientation);
    const facts = await look(name, "image");
    const turned = orientation >= 5;
    expect(facts).toMatchObject(turned ? { width: 90, height: 160 } : { width: 160, height: 90 });
    const seen = await quarters(name, facts.uprightFilters);
    expect(seen.map((value) => (value > 128 ? 255 : 0))).toEqual(expected);
  });

  test.each([90, 180, 270])(
    "a phone video turned by %i degrees is set upright",
    async (degrees) => {
      await maker.make("-f", "lavfi", "-i", corner, "-c:v", "libx264", at("corner.mp4"));
      // The matrix of the track header, written by hand: releases of FFmpeg differ in how to ask for it.
      const file = await readFile(at("corner.mp4"));
      const header = file.indexOf("tkhd") + 4 + 40;
      const one = 0x10000;
      const matrix: Record<number, number[]> = {
        90: [0, one, 0, -one, 0, 0],
        180: [-one, 0, 0, 0, -one, 0],
        270: [0, -one, 0, one, 0, 0],
      };
      for (const [index, value] of (matrix[degrees] ?? []).entries())
        file.writeInt32BE(value, header + index * 4);
      const name = `phone-${degrees}.mp4`;
      await writeFile(at(name), file);
      const facts = await look(name, "video");
      expect(facts).toMatchObject(
        degrees === 180 ? { width: 160, height: 90 } : { width: 90, height: 160 },
      );
      expect(facts.rotation).toBe(degrees);
      const seen = await quarters(name, facts.uprightFilters);
      const upright: Record<number, number[]> = {
        90: [0, 255, 0, 0],
        180: [0, 0, 0, 255],
        270: [0, 0, 255, 0],
      };
      expect(seen.map((value) => (value > 128 ? 255 : 0))).toEqual(upright[degrees]);
    },
  );
});

describe("files that cannot be used", () => {
  const refused = async (
    name: string,
    content: string | Buffer,
    reason: string | RegExp,
    expected?: ProbeOptions["expected"],
  ) => {
    await writeFile(at(name), content);
    const started = bench.commands.length;
    await expect(look(name, expected)).rejects.toMatchObject({
      type: "MEDIA_UNREADABLE",
      data: { clip: "tracks[0].clips[1]", reason: expect.stringMatching(reason) },
    });
    return bench.commands.length - started;
  };

  test.each([
    ["empty.mp4", "", "empty"],
    ["text.jpg", "hello, I am no picture", "text file"],
    ["list.mp4", "#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", "playlist"],
    ["list.txt", "ffconcat version 1.0\nfile /etc/passwd\n", "playlist"],
    [
      "drawing.png",
      '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
      "SVG",
    ],
    ["page.jpg", "<!doctype html><title>404</title>", "web page"],
    ["noise.mp4", Buffer.from(Array.from({ length: 512 }, (_, n) => (n * 89) % 200)), "not known"],
    ["photo.heic", Buffer.from("\0\0\0\x18ftypheic\0\0\0\0heicmif1", "latin1"), "HEIC"],
  ])("%s is refused without FFmpeg ever opening it", async (name, content, reason) => {
    expect(await refused(name, content, reason)).toBe(0);
  });

  test("a file that only begins like a PNG", async () => {
    await refused(
      "fake.png",
      Buffer.from("\x89PNG\r\n\x1a\nand then nothing of the kind", "latin1"),
      /./,
    );
  });

  test.each(["png", "jpg"])("half a %s", async (extension) => {
    await maker.image(at(`half.${extension}`), "640x360");
    const { size } = await stat(at(`half.${extension}`));
    await truncate(at(`half.${extension}`), Math.floor(size / 2));
    await expect(look(`half.${extension}`)).rejects.toMatchObject({
      type: "MEDIA_UNREADABLE",
      data: { reason: expect.stringContaining("damaged or cut off") },
    });
  });

  test("a video whose upload broke off, although its index stands at the front", async () => {
    await maker.make(
      "-f",
      "lavfi",
      "-i",
      "testsrc2=s=320x180:d=2",
      "-c:v",
      "libx264",
      "-movflags",
      "+faststart",
      at("cut.mp4"),
    );
    const { size } = await stat(at("cut.mp4"));
    await truncate(at("cut.mp4"), Math.floor(size * 0.7));
    await expect(look("cut.mp4")).rejects.toMatchObject({
      data: { reason: "the file is cut off before its end" },
    });
  });

  test("an image of absurd dimensions is refused before it fills the memory", async () => {
    // 40,000 x 40,000 pixels declared, no data behind it.
    const header = Buffer.from("0000000d4948445200009c4000009c400802000000", "hex");
    const crc = Buffer.alloc(4);
    crc.writeUInt32BE(crc32(header.subarray(4)));
    const png = Buffer.concat([
      Buffer.from("89504e470d0a1a0a", "hex"),
      header,
      crc,
      Buffer.from("0000000049444154", "hex"),
    ]);
    await refused("bomb.png", png, /megapixels|size/);
  });

  test("sound where a picture is wanted, a picture where sound is wanted", async () => {
    await maker.sound(at("only.wav"));
    await maker.silentVideo(at("mute.mp4"));
    await maker.image(at("still.png"));
    await expect(look("only.wav", "video")).rejects.toMatchObject({
      data: { reason: "it has sound only" },
    });
    await expect(look("mute.mp4", "audio")).rejects.toMatchObject({
      data: { reason: "it has no sound" },
    });
    await expect(look("still.png", "audio")).rejects.toMatchObject({
      data: { reason: "it is an image" },
    });
    await expect(look("mute.mp4", "image")).rejects.toMatchObject({
      data: { reason: "it is a video (MP4 or MOV)" },
    });
  });
});

function crc32(bytes: Buffer): number {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

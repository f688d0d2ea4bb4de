import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { enhanceExecutor } from "../../services/compose/enhance.executor.ts";
import { EnhancePayload } from "../../services/compose/enhance.payload.ts";
import { planEnhance } from "../../services/compose/enhance.plan.ts";
import { findFfmpeg } from "../../services/compose/media/ffmpeg.ts";
import { probe } from "../../services/compose/media/probe.ts";
import type { MediaFacts } from "../../services/compose/media/probe-facts.policy.ts";
import { openToolsBench, type ToolsBench } from "../support/executor-tools.ts";
import { mediaMaker } from "../support/lavfi.ts";

let bench: ToolsBench;
let maker: Awaited<ReturnType<typeof mediaMaker>>;
beforeEach(async () => {
  bench = await openToolsBench();
  maker = await mediaMaker(bench.config);
});
afterEach(() => bench.close());

/** Puts a file into storage and gives its key. */
const store = (name: string): { key: string; file: string } => {
  const file = join(bench.dir, name);
  bench.objects.set(`${bench.config.OSS_BUCKET_NAME}/${name}`, file);
  return { key: name, file };
};
const enhance = (task: Record<string, unknown>) =>
  enhanceExecutor.execute(EnhancePayload.parse({ quality: "draft", ...task }), bench.tools);
const uploaded = async (name: string): Promise<MediaFacts> =>
  probe(bench.uploaded.get(name) ?? "", bench.tools, { clip: "result" });

describe("enhancing a video", () => {
  test("doubles its size by default and keeps its frames and its sound", async () => {
    const { key, file } = store("clip.mp4");
    await maker.video(file);
    const result = await enhance({ src: key });
    expect(result.outputs.map(({ role }) => role)).toEqual(["media"]);
    expect(result.info).toMatchObject({ kind: "video", width: 320, height: 180, frames: 25 });
    expect(await uploaded("enhanced.mp4")).toMatchObject({
      width: 320,
      height: 180,
      frames: 25,
      hasAudio: true,
      audio: { codec: "aac" },
    });
    expect(bench.progressed.at(-1)).toMatchObject({ stage: "uploading" });
  });

  test("a rotated source of odd size comes out upright and even", async () => {
    const { key, file } = store("odd.mkv");
    await maker.make("-f", "lavfi", "-i", "testsrc=s=91x51:r=10:d=1", "-c:v", "ffv1", file);
    const result = await enhance({ src: key, width: 300 });
    expect(result.info).toMatchObject({ width: 300, height: 168, hasAudio: false });
  });

  test("sound that an MP4 cannot hold is encoded anew", async () => {
    const { key, file } = store("pcm.mkv");
    await maker.video(file, "64x64", 1, ["-c:a", "pcm_s16le"]);
    await enhance({ src: key });
    expect(await uploaded("enhanced.mp4")).toMatchObject({ audio: { codec: "aac" } });
  });

  test("takes the frame rate that is asked for", async () => {
    const { key, file } = store("clip.mp4");
    await maker.silentVideo(file, "64x64", 2);
    const result = await enhance({ src: key, fps: 30 });
    expect(result.info).toMatchObject({ frames: 60, fps: "30/1", durationMs: 2000 });
  });
});

describe("enhancing an image", () => {
  test("makes a PNG four times as large", async () => {
    const { key, file } = store("still.png");
    await maker.image(file, "82x46");
    const result = await enhance({ src: key, scale: 4 });
    expect(result.info).toEqual({ kind: "image", width: 328, height: 184 });
    expect(await uploaded("enhanced.png")).toMatchObject({
      kind: "image",
      width: 328,
      height: 184,
    });
  });

  test("of a photograph looks more like the original than doubling the pixels does", async () => {
    const original = join(bench.dir, "original.png");
    await maker.make("-i", "samples/coffee.jpg", "-vf", "scale=320:-2:flags=area", original);
    const { key, file } = store("small.png");
    await maker.make("-i", original, "-vf", "scale=iw/2:ih/2:flags=area", file);
    const doubled = join(bench.dir, "doubled.png");
    await maker.make("-i", file, "-vf", "scale=iw*2:ih*2:flags=neighbor", doubled);
    await enhance({ src: key, denoise: 0 });
    const enhanced = await likeness(original, bench.uploaded.get("enhanced.png") ?? "");
    expect(enhanced).toBeGreaterThan(await likeness(original, doubled));
  });

  async function likeness(a: string, b: string): Promise<number> {
    const { ffmpeg } = await findFfmpeg(bench.config);
    const { stderr } = await promisify(execFile)(
      ffmpeg,
      // biome-ignore format: option and value side by side
      ["-v", "info", "-i", a, "-i", b, "-lavfi", "[0:v]format=gbrp[x];[1:v]format=gbrp[y];[x][y]ssim", "-f", "null", "-"],
    );
    return Number(/All:([\d.]+)/.exec(stderr)?.[1]);
  }
});

describe("what cannot be enhanced", () => {
  test("a missing object, sound, and what would become too large are refused by name", async () => {
    await expect(enhance({ src: "nothing.mp4" })).rejects.toMatchObject({
      type: "MEDIA_UNREADABLE",
      data: { clip: "src" },
    });
    const sound = store("a.wav");
    await maker.sound(sound.file);
    await expect(enhance({ src: sound.key })).rejects.toMatchObject({
      type: "MEDIA_UNREADABLE",
      data: { reason: "it has sound only" },
    });
    const large = store("large.png");
    await maker.image(large.file, "3840x2160");
    await expect(enhance({ src: large.key, scale: 4 })).rejects.toMatchObject({
      type: "INVALID_INPUT",
      message: expect.stringContaining("15360x8640"),
    });
    expect(bench.uploaded.size).toBe(0);
    expect((await readdir(bench.tools.workDir)).every((name) => name.startsWith("source-"))).toBe(
      true,
    );
  });

  test.each([
    [{ src: "a.mp4", scale: 3 }, "scale"],
    [{ src: "a.mp4", scale: 2, width: 640 }, "scale"],
    [{ src: "a.mp4", width: 641 }, "width"],
    [{ src: "a.mp4", fps: 0 }, "fps"],
    [{ src: "a.mp4", zoom: 2 }, ""],
    [{}, "src"],
  ])("%j is refused at its field", (task, path) => {
    const parsed = EnhancePayload.safeParse(task);
    expect(parsed.error?.issues[0]?.path.join(".")).toBe(path);
  });
});

describe("the plan", () => {
  const facts: MediaFacts = {
    kind: "video",
    format: "MP4 or MOV",
    demuxer: "mov",
    durationMs: 1000,
    width: 90,
    height: 160,
    pixelAspect: { num: 1, den: 1 },
    rotation: 90,
    uprightFilters: "transpose=clock",
    vfr: false,
    hasVideo: true,
    hasAudio: false,
    codec: "h264",
    hasAlpha: false,
  };
  const plan = (more: Partial<MediaFacts>, task: Record<string, unknown> = {}) =>
    planEnhance({ ...facts, ...more }, EnhancePayload.parse({ src: "a", ...task }));

  test("turns first, then cleans, scales and sharpens", () => {
    expect(plan({})).toMatchObject({
      width: 180,
      height: 320,
      filters: expect.stringMatching(
        /^transpose=clock,hqdn3d=.*,scale=180:320:.*,cas=.*,setsar=1$/,
      ),
    });
  });

  test("pixels that are not square become square, along the side that they lie on", () => {
    const wide = { pixelAspect: { num: 4, den: 3 } };
    expect(plan({ ...wide, uprightFilters: "" })).toMatchObject({ width: 240, height: 320 });
    expect(plan(wide)).toMatchObject({ width: 180, height: 426 });
  });

  test("width and height together are the largest that the result becomes", () => {
    expect(plan({}, { width: 1000, height: 320 })).toMatchObject({ width: 180, height: 320 });
  });

  test("nothing is cleaned or sharpened where that is switched off", () => {
    expect(plan({}, { denoise: 0, sharpen: 0 })).toMatchObject({
      filters: "transpose=clock,scale=180:320:flags=lanczos+accurate_rnd,setsar=1",
    });
  });
});

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import {
  ffmpegBuilds,
  numberedImage,
  numberedVideo,
  openRenderBench,
  type RenderBench,
  readFrames,
  tiny,
} from "../support/frames.ts";

describe.each(ffmpegBuilds())("$name: a timeline", ({ env }) => {
  let bench: RenderBench;
  beforeAll(async () => {
    bench = await openRenderBench(env);
    await numberedImage(bench.source("one.png"), 77);
    await numberedVideo(bench.source("a.mp4"), { source: 1, frames: 30 });
  });
  afterAll(() => bench.close());

  test("of 500 clips has every clip in its place", async () => {
    const clips = Array.from({ length: 500 }, (_, n) => ({
      src: n % 2 === 0 ? "a.mp4" : "one.png",
      trim: n % 2 === 0 ? { start: (n % 30) * 0.04 } : undefined,
      duration: 0.04,
    }));
    const { file } = await bench.render({
      timeline: { tracks: [{ type: "video", clips }] },
      output: tiny,
    });
    const seen = await readFrames(file);
    expect(seen.map(({ source, frame }) => (source === 1 ? frame : source))).toEqual(
      clips.map((_, n) => (n % 2 === 0 ? n % 30 : 77)),
    );
  });
});

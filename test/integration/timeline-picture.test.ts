import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { TimelineInput } from "../../services/compose/timeline/timeline.schema.ts";
import {
  ffmpegBuilds,
  ffmpegProgram,
  height,
  numberedImage,
  numberedVideo,
  openRenderBench,
  type RenderBench,
  readFrames,
  type SeenFrame,
  tiny,
  width,
} from "../support/frames.ts";

/** Brightest pixel of a part of the picture, given in fractions. */
function brightest({ luma }: SeenFrame, top: number, bottom: number, left = 0, right = 1): number {
  let most = 0;
  for (let y = Math.round(top * height); y < Math.round(bottom * height); y++)
    for (let x = Math.round(left * width); x < Math.round(right * width); x++)
      most = Math.max(most, luma[y * width + x] ?? 0);
  return most;
}
const average = (frame: SeenFrame, top: number, bottom: number, left = 0, right = 1) => {
  let sum = 0;
  let count = 0;
  for (let y = Math.round(top * height); y < Math.round(bottom * height); y++)
    for (let x = Math.round(left * width); x < Math.round(right * width); x++) {
      sum += frame.luma[y * width + x] ?? 0;
      count++;
    }
  return sum / count;
};

describe.each(ffmpegBuilds())("$name: the picture", ({ env }) => {
  let bench: RenderBench;
  const make = (name: string, source: string, ...args: string[]) =>
    execFileSync(ffmpegProgram, [
      ...["-v", "error", "-y", "-f", "lavfi", "-i", source, "-frames:v", "1", ...args],
      bench.source(name),
    ]);
  beforeAll(async () => {
    bench = await openRenderBench(env);
    make("grey.png", "color=c=0x808080:s=161x91");
    make("white.png", "color=c=white:s=91x161");
    make("black.png", "color=c=black:s=160x90");
    make("clear.png", "color=c=white@0:s=64x36,format=rgba", "-pix_fmt", "rgba");
    make("left.png", "color=c=black:s=160x90,drawbox=x=0:y=0:w=40:h=90:color=white:t=fill");
    await numberedImage(bench.source("one.png"), 77);
    await numberedVideo(bench.source("a.mp4"), { source: 1, frames: 30 });
  });
  afterAll(() => bench.close());

  const shown = async (timeline: unknown, output: Record<string, unknown> = {}) => {
    const { file } = await bench.render({
      timeline: timeline as TimelineInput,
      output: { ...tiny, ...output },
    });
    return readFrames(file);
  };
  const video = (...clips: unknown[]) => ({ type: "video", clips });

  test("has the subtitle in the lower part during the frames of its cue, and nowhere else", async () => {
    const seen = await shown({
      tracks: [
        video({ src: "black.png", duration: 1.2 }),
        {
          type: "subtitle",
          style: { size: 0.12 },
          cues: [{ start: 0.4, end: 0.8, text: "早安 Hi" }],
        },
      ],
    });
    const text = seen.map((frame) => brightest(frame, 0.7, 1) > 150);
    expect(text).toEqual(seen.map((_, n) => n >= 10 && n < 20));
    expect(seen.every((frame) => brightest(frame, 0, 0.6) < 30)).toBe(true);
  });

  test.each([{ fps: 30 }, { fps: "24000/1001" }, { fps: 60 }])(
    "has a subtitle in exactly its frames at $fps frames a second",
    async ({ fps }) => {
      const seen = await shown(
        {
          tracks: [
            {
              type: "text",
              clips: [{ text: "一", start: 0.25, duration: 0.3, animation: "none" }],
            },
            {
              type: "subtitle",
              style: { position: "bottom" },
              srt: "1\n00:00:00,000 --> 00:00:01,000\n.",
            },
          ],
        },
        { fps, durationFrom: "longest" },
      );
      const rate = typeof fps === "number" ? fps : 24000 / 1001;
      const from = Math.round(0.25 * rate);
      const to = Math.round(0.55 * rate);
      expect(seen.map((frame) => brightest(frame, 0.4, 0.6) > 150)).toEqual(
        seen.map((_, n) => n >= from && n < to),
      );
    },
  );

  test("shows marks of the subtitle format as text, and obeys none", async () => {
    const hostile = String.raw`{\an8\fs200\1c&H0000FF&}A\NB:',[x];{\p1}m 0 0`;
    const seen = await shown({
      tracks: [
        video({ src: "grey.png", duration: 0.2 }),
        { type: "subtitle", style: { size: 0.06 }, cues: [{ start: 0, end: 0.2, text: hostile }] },
      ],
    });
    expect(brightest(seen[2] as SeenFrame, 0, 0.6)).toBeLessThan(140);
    expect(brightest(seen[2] as SeenFrame, 0.7, 1)).toBeGreaterThan(180);
  });

  test("puts the first of two subtitle tracks above the second without overlap", async () => {
    const cue = (text: string) => [{ start: 0, end: 1, text }];
    const one = (tracks: unknown[]) =>
      shown({ tracks: [video({ src: "black.png", duration: 0.04 }), ...tracks] }, { fps: 25 });
    const lower = { type: "subtitle", style: { size: 0.1 }, cues: cue("EEEE") };
    const [alone] = await one([lower]);
    const [both] = await one([{ ...lower, cues: cue("早安") }, lower]);
    const rows = (frame: SeenFrame | undefined) =>
      Array.from({ length: height }, (_, y) => y).filter(
        (y) => frame && brightest(frame, y / height, (y + 1) / height) > 120,
      );
    const single = rows(alone);
    const stacked = rows(both);
    expect(stacked.at(-1)).toBe(single.at(-1));
    expect(stacked[0]).toBeLessThan((single[0] ?? 0) - 8);
  });

  test("contains an upright image between bars, or before a blurred copy of itself", async () => {
    const [bars] = await shown({
      tracks: [video({ src: "white.png", duration: 0.04, fit: "contain" })],
    });
    expect(average(bars as SeenFrame, 0, 1, 0, 0.25)).toBeLessThan(20);
    expect(average(bars as SeenFrame, 0.1, 0.9, 0.45, 0.55)).toBeGreaterThan(225);
    const [blur] = await shown({
      tracks: [video({ src: "white.png", duration: 0.04, fit: "blur" })],
    });
    expect(average(blur as SeenFrame, 0.1, 0.9, 0, 0.2)).toBeGreaterThan(120);
    expect(average(blur as SeenFrame, 0.1, 0.9, 0, 0.2)).toBeLessThan(200);
    expect(average(blur as SeenFrame, 0.1, 0.9, 0.45, 0.55)).toBeGreaterThan(225);
  });

  test("fills the canvas with images of odd sizes and keeps their brightness", async () => {
    const seen = await shown({ tracks: [video({ src: "grey.png", duration: 0.2 })] });
    expect(seen).toHaveLength(5);
    expect(average(seen[4] as SeenFrame, 0, 1)).toBeCloseTo(128, -0.5);
  });

  test("shows what is behind the clear parts of an image", async () => {
    const overlay = { type: "overlay", clips: [{ src: "clear.png", duration: 0.2, scale: 1 }] };
    const over = await shown({ tracks: [video({ src: "one.png", duration: 0.2 }), overlay] });
    expect(over.map(({ source }) => source)).toEqual([77, 77, 77, 77, 77]);
    const [alone] = await shown(
      { tracks: [video({ src: "clear.png", duration: 0.04 })] },
      { background: "#808080" },
    );
    expect(average(alone as SeenFrame, 0, 1)).toBeCloseTo(128, -0.5);
  });

  test("zooms in evenly: an edge moves a little with each frame and never back", async () => {
    const zoom = { from: { scale: 1 }, to: { scale: 1.2 } };
    const seen = await shown({ tracks: [video({ src: "left.png", duration: 1, zoom })] });
    // Place of the edge to a fraction of a pixel, from the brightness of one row.
    const edge = seen.map(({ luma }) => {
      const row = luma.subarray(45 * width, 46 * width);
      return row.reduce((sum, value) => sum + Math.max(0, value - 16), 0) / 219;
    });
    const steps = edge.slice(1).map((place, n) => (edge[n] ?? 0) - place);
    expect((edge[0] ?? 0) - (edge.at(-1) ?? 0)).toBeGreaterThan(5);
    expect(Math.min(...steps)).toBeGreaterThan(-0.05);
    expect(Math.max(...steps)).toBeLessThan(0.8);
  });

  test("fades from and to the background", async () => {
    const clip = { src: "white.png", duration: 0.8, fadeIn: 0.2, fadeOut: 0.2 };
    const seen = await shown({ tracks: [video(clip)] });
    const light = seen.map((frame) => average(frame, 0, 1));
    expect(light[0]).toBeLessThan(20);
    expect(light[2]).toBeGreaterThan(60);
    expect(light[10]).toBeGreaterThan(225);
    expect(light.at(-1)).toBeLessThan(70);
  });
});

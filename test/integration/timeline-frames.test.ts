import { readFile, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import {
  ffmpegBuilds,
  frameReader,
  numberedVideo,
  openRenderBench,
  type RenderBench,
  tiny,
} from "../support/frames.ts";

const A = 1;
const B = 2;
const FAST = 3;
const FILM = 4;
const UNEVEN = 5;

/** Frames that the uneven source keeps of 50 at 25 a second. */
const kept = (n: number) => n % 7 < 2 || n % 7 > 4;

/** Writes "turn by 270 degrees clockwise" into the header of an MP4 with one track. */
async function turnBack(file: string) {
  const data = await readFile(file);
  // The matrix stands 40 bytes into the version 0 track header, after its type, version and times.
  const matrix = data.indexOf("tkhd") + 4 + 40;
  for (const [index, value] of [0, -0x10000, 0, 0x10000, 0, 0].entries())
    data.writeInt32BE(value, matrix + index * 4);
  await writeFile(file, data);
}

const range = (from: number, to: number, step = 1) =>
  Array.from({ length: Math.floor((to - from) / step) }, (_, n) => from + n * step);

describe.each(ffmpegBuilds())("$name: the output shows", ({ env }) => {
  let bench: RenderBench;
  beforeAll(async () => {
    bench = await openRenderBench(env);
    await Promise.all([
      numberedVideo(bench.source("a.mp4"), { source: A, frames: 60 }),
      numberedVideo(bench.source("b.mp4"), { source: B, frames: 60 }),
      numberedVideo(bench.source("fast.mp4"), { source: FAST, frames: 120, fps: "60" }),
      numberedVideo(bench.source("film.mp4"), { source: FILM, frames: 72, fps: "24000/1001" }),
      numberedVideo(bench.source("uneven.mp4"), {
        source: UNEVEN,
        frames: 50,
        args: ["-vf", "select='lt(mod(n,7),2)+gt(mod(n,7),4)'", "-fps_mode", "vfr"],
      }),
    ]);
  });
  afterAll(() => bench.close());

  const { shown, numbers, of } = frameReader(() => bench, tiny);

  test("the frames of each trimmed clip between hard cuts, and no other", async () => {
    const seen = await numbers([
      { src: "a.mp4", trim: { start: 0.4, end: 1.2 } },
      { src: "b.mp4", trim: { start: 1 }, duration: 0.6 },
      { src: "a.mp4", trim: { start: 2 } },
      { src: "b.mp4", duration: 0.04 },
    ]);
    expect(seen).toEqual([
      ...of(A, range(10, 30)),
      ...of(B, range(25, 40)),
      ...of(A, range(50, 60)),
      ...of(B, [0]),
    ]);
  });

  test("every second frame at twice the speed, every frame twice at half of it", async () => {
    const seen = await numbers([
      { src: "a.mp4", trim: { start: 0, end: 1.2 }, speed: 2 },
      { src: "b.mp4", trim: { start: 0.4, end: 0.8 }, speed: 0.5 },
    ]);
    expect(seen).toEqual([
      ...of(A, range(0, 30, 2)),
      ...of(
        B,
        range(10, 20).flatMap((n) => [n, n]),
      ),
    ]);
  });

  test.each([
    { src: "fast.mp4", source: FAST, rate: 60, fps: 30, out: 30 },
    { src: "a.mp4", source: A, rate: 25, fps: 30, out: 30 },
    { src: "film.mp4", source: FILM, rate: 24000 / 1001, fps: "24000/1001", out: 24000 / 1001 },
    { src: "film.mp4", source: FILM, rate: 24000 / 1001, fps: 25, out: 25 },
  ])("the source frame of that time when $src is shown at $fps", async (c) => {
    const seen = await numbers([{ src: c.src, duration: 1.5, trim: { start: 0.5 } }], {
      fps: c.fps,
    });
    // The frame whose time has come, give or take a quarter of an output frame.
    const first = Math.ceil(0.5 * c.rate - 0.5);
    const expected = seen.map((_, n) =>
      Math.floor(0.5 * c.rate + ((n + 0.23) * c.rate) / c.out + 1e-9),
    );
    expect(seen).toEqual(
      of(
        c.source,
        expected.map((frame) => Math.max(first, frame)),
      ),
    );
    expect(seen).toHaveLength(Math.round(1.5 * c.out));
  });

  test("the last frame that came where the rate of the source varies", async () => {
    const seen = await numbers([{ src: "uneven.mp4", duration: 1.8 }]);
    let order = -1;
    let last = 0;
    const expected = range(0, 45).map((n) => {
      if (kept(n)) {
        order++;
        last = n;
      }
      return order < 0 ? 0 : last;
    });
    expect(seen).toEqual(of(UNEVEN, expected));
  });

  test("a video upright that a phone stored lying on its side", async () => {
    const file = bench.source("phone.mp4");
    // Turned by a quarter when it is stored; the matrix in the header turns it back.
    await numberedVideo(file, { source: A, frames: 10, args: ["-vf", "transpose=clock"] });
    await turnBack(file);
    expect(await numbers([{ src: "phone.mp4" }])).toEqual(of(A, range(0, 10)));
  });

  test("both clips during a transition, only one of them before and after it", async () => {
    const seen = await shown([
      { src: "a.mp4", duration: 1, transition: { kind: "fade", duration: 0.4 } },
      { src: "b.mp4", duration: 1 },
    ]);
    expect(seen).toHaveLength(40);
    expect(seen.slice(0, 15).map(({ frame }) => frame)).toEqual(range(0, 15));
    expect(seen.slice(0, 15).every(({ source, clear }) => clear && source === A)).toBe(true);
    expect(seen.slice(18, 23).some(({ clear }) => clear)).toBe(false);
    expect(seen.slice(25).map(({ frame }) => frame)).toEqual(range(10, 25));
    expect(seen.slice(25).every(({ source, clear }) => clear && source === B)).toBe(true);
  });

  test("three clips through two transitions, with a cut after them", async () => {
    const seen = await shown([
      { src: "a.mp4", duration: 0.8, transition: { kind: "wipeleft", duration: 0.2 } },
      { src: "b.mp4", duration: 0.8, transition: { kind: "dissolve", duration: 0.2 } },
      { src: "a.mp4", trim: { start: 1 }, duration: 0.8 },
      { src: "b.mp4", trim: { start: 2 } },
    ]);
    const text = seen.map(({ source, frame }) => `${source}:${frame}`);
    expect(text).toHaveLength(60);
    expect(text.slice(0, 15)).toEqual(of(A, range(0, 15)));
    expect(text.slice(20, 30)).toEqual(of(B, range(5, 15)));
    expect(text.slice(35, 50)).toEqual(of(A, range(30, 45)));
    expect(text.slice(50)).toEqual(of(B, range(50, 60)));
  });
});

import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import {
  ffmpegBuilds,
  ffmpegProgram,
  frameReader,
  numberedVideo,
  openRenderBench,
  type RenderBench,
  tiny,
} from "../support/frames.ts";

const A = 1;
const B = 2;

const range = (from: number, to: number, step = 1) =>
  Array.from({ length: Math.floor((to - from) / step) }, (_, n) => from + n * step);

describe.each(ffmpegBuilds())("$name: the output shows", ({ env }) => {
  let bench: RenderBench;
  beforeAll(async () => {
    bench = await openRenderBench(env);
    await Promise.all([
      numberedVideo(bench.source("a.mp4"), { source: A, frames: 60 }),
      numberedVideo(bench.source("b.mp4"), { source: B, frames: 60 }),
    ]);
  });
  afterAll(() => bench.close());

  const { numbers, of } = frameReader(() => bench, tiny);

  test("the last frame held, or the clip again, where the source is too short", async () => {
    const held = await numbers([
      { src: "a.mp4", trim: { start: 2 }, duration: 0.6 },
      { src: "b.mp4", trim: { start: 2 }, duration: 1, fill: "loop" },
    ]);
    expect(held).toEqual([
      ...of(A, [...range(50, 60), 59, 59, 59, 59, 59]),
      ...of(B, [...range(50, 60), ...range(50, 60), ...range(50, 55)]),
    ]);
  });

  test.each([
    { fill: "freeze", rest: of(A, Array(15).fill(9)) },
    { fill: "loop", rest: of(A, [...range(0, 10), ...range(0, 5)]) },
    { fill: "background", rest: of(0, Array(15).fill(0)) },
  ])("$fill after the main picture when an overlay lasts longer", async ({ fill, rest }) => {
    const overlay = {
      type: "overlay",
      clips: [
        { src: "b.mp4", start: 0.2, duration: 0.8, scale: 0.02, position: { x: 0.01, y: 0.99 } },
      ],
    };
    const seen = await numbers([{ src: "a.mp4", duration: 0.4 }], { fill }, [overlay]);
    expect(seen).toEqual([...of(A, range(0, 10)), ...rest]);
  });

  test("an overlay in its frames only, and the background in a gap", async () => {
    const cover = { anchor: "top-left", x: 0, y: 0 };
    const seen = await numbers(
      [
        { src: "a.mp4", duration: 0.4 },
        { src: "a.mp4", start: 0.8, trim: { start: 1 }, duration: 0.4 },
      ],
      {},
      [
        {
          type: "overlay",
          clips: [{ src: "b.mp4", start: 0.2, duration: 0.4, scale: 1, position: cover }],
        },
      ],
    );
    expect(seen).toEqual([
      ...of(A, range(0, 5)),
      ...of(B, range(0, 10)),
      ...of(0, Array(5).fill(0)),
      ...of(A, range(25, 35)),
    ]);
  });

  test("no more than the voice lasts when the sound sets the length", async () => {
    const voice = bench.source("voice.wav");
    execFileSync(ffmpegProgram, [
      "-v",
      "error",
      "-y",
      "-f",
      "lavfi",
      "-i",
      "sine=440:d=0.8",
      voice,
    ]);
    const seen = await numbers([{ src: "a.mp4" }], { durationFrom: "audio" }, [
      { type: "audio", clips: [{ src: "voice.wav" }] },
    ]);
    expect(seen).toEqual(of(A, range(0, 20)));
  });
});

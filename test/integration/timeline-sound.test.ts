import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { TimelineInput } from "../../services/compose/timeline/timeline.schema.ts";
import {
  ffmpegBuilds,
  ffmpegProgram,
  level,
  numberedVideo,
  openRenderBench,
  type RenderBench,
  readSamples,
  tiny,
} from "../support/frames.ts";

const AMPLITUDE = 0.25;
const VOICE_HZ = 600;
const MUSIC_HZ = 2000;
/** Level of a sine of that amplitude. */
const LOUD = AMPLITUDE / Math.SQRT2;

/** A tone in the given seconds, silence around it. */
function tone(
  file: string,
  from: number,
  to: number,
  length: number,
  { hz = VOICE_HZ, options = [] as string[] } = {},
) {
  const source = `aevalsrc=${AMPLITUDE}*sin(2*PI*${hz}*t)*between(t\\,${from}\\,${to}):s=44100:d=${length}`;
  execFileSync(ffmpegProgram, ["-v", "error", "-y", "-f", "lavfi", "-i", source, ...options, file]);
}

/** Amplitude of one pitch in a stretch of whole periods, given in seconds. */
function strength(samples: Float32Array, hz: number, from: number, to: number): number {
  const part = samples.subarray(Math.round(from * 48_000), Math.round(to * 48_000));
  let real = 0;
  let imaginary = 0;
  for (const [n, value] of part.entries()) {
    const angle = (2 * Math.PI * hz * n) / 48_000;
    real += value * Math.cos(angle);
    imaginary += value * Math.sin(angle);
  }
  return (2 * Math.hypot(real, imaginary)) / part.length;
}

/** Second at which a sound begins. */
const onset = (samples: Float32Array) => samples.findIndex((v) => Math.abs(v) > 0.05) / 48_000;

describe.each(ffmpegBuilds())("$name: the sound", ({ env }) => {
  let bench: RenderBench;
  beforeAll(async () => {
    bench = await openRenderBench(env);
    tone(bench.source("beep.wav"), 0.5, 0.7, 1.5);
    tone(bench.source("long.m4a"), 0, 9, 2);
    tone(bench.source("hum.wav"), 0, 9, 0.4, { options: ["-ac", "2"] });
    tone(bench.source("music.m4a"), 0, 9, 1.2, { hz: MUSIC_HZ });
    await numberedVideo(bench.source("a.mp4"), { source: 1, frames: 60 });
    const video = bench.source("talk.mp4");
    execFileSync(ffmpegProgram, [
      ...["-v", "error", "-y", "-i", bench.source("a.mp4"), "-i", bench.source("beep.wav")],
      ...["-c:v", "copy", "-c:a", "aac", video],
    ]);
  });
  afterAll(() => bench.close());

  const heard = async (timeline: unknown, output: Record<string, unknown> = {}) => {
    const { file, info } = await bench.render({
      timeline: timeline as TimelineInput,
      output: { ...tiny, ...output },
    });
    return { samples: await readSamples(file), info };
  };
  const picture = { type: "video", clips: [{ src: "a.mp4" }] };

  test("of a mono file at 44.1 kHz begins where its clip lies, as loud as it was", async () => {
    const { samples, info } = await heard({
      tracks: [picture, { type: "audio", clips: [{ src: "beep.wav", start: 0.3 }] }],
    });
    expect(Math.abs(onset(samples) - 0.8)).toBeLessThan(0.005);
    expect(level(samples, 0.85, 0.95) / LOUD).toBeCloseTo(1, 1);
    expect(level(samples, 1.05, 2.3)).toBeLessThan(0.001);
    expect(info).toMatchObject({ hasAudio: true, audioOffsetMs: 0 });
  });

  test("is exactly as long as the picture, cut or silent at the end", async () => {
    for (const src of ["beep.wav", "long.m4a"]) {
      const { samples } = await heard(
        {
          tracks: [
            { type: "video", clips: [{ src: "a.mp4", duration: 1.5 }] },
            { type: "audio", clips: [{ src }] },
          ],
        },
        { fps: "24000/1001" },
      );
      // 36 frames at 24000/1001 a second.
      expect(Math.abs(samples.length - 72_072)).toBeLessThan(1024);
    }
  });

  test("of a video clip stays with its picture when it is trimmed, moved and slowed down", async () => {
    const clip = { src: "talk.mp4", trim: { start: 0.4, end: 1.2 }, speed: 0.5 };
    const { samples } = await heard({
      tracks: [{ type: "video", clips: [{ src: "a.mp4", duration: 0.5 }, clip] }],
    });
    // The tone begins 0.1 s into the clip, which plays at half the speed.
    expect(Math.abs(onset(samples) - 0.7)).toBeLessThan(0.03);
    expect(level(samples, 0.8, 1.0)).toBeGreaterThan(LOUD * 0.7);
    expect(level(samples, 1.25, 2)).toBeLessThan(0.01);
  });

  test("of two clips is faded over their transition and never louder than one", async () => {
    const tracks = [
      {
        type: "video",
        clips: [
          { src: "talk.mp4", duration: 0.7, transition: { duration: 0.2 } },
          { src: "talk.mp4", trim: { start: 0.5 }, duration: 0.6 },
        ],
      },
    ];
    const { samples, info } = await heard({ tracks });
    expect(info).toMatchObject({ frames: 28 });
    expect(level(samples, 0.5, 0.7)).toBeLessThan(LOUD * 1.45);
    expect(level(samples, 0.72, 0.85)).toBeLessThan(0.02);
  });

  test("of the music is repeated, goes down under the voice and comes back", async () => {
    const { samples } = await heard(
      {
        tracks: [
          { type: "video", clips: [{ src: "a.mp4", duration: 3, fill: "loop" }] },
          { type: "audio", clips: [{ src: "hum.wav", start: 1 }, { src: "hum.wav" }] },
        ],
        music: {
          src: "music.m4a",
          volume: 0.4,
          duck: { amount: 0.9, threshold: 0.01, attack: 0.02, release: 0.2 },
        },
      },
      { fps: 10 },
    );
    expect(strength(samples, MUSIC_HZ, 0.3, 0.9)).toBeCloseTo(0.4 * AMPLITUDE, 2);
    expect(strength(samples, MUSIC_HZ, 1.5, 1.7)).toBeLessThan(0.15 * AMPLITUDE);
    expect(strength(samples, MUSIC_HZ, 2.5, 2.98)).toBeCloseTo(0.4 * AMPLITUDE, 2);
    expect(strength(samples, VOICE_HZ, 1.5, 1.7)).toBeGreaterThan(0.6 * AMPLITUDE);
  });

  test("never leaves the range of the format, however loud its parts are", async () => {
    const loud = { src: "long.m4a", volume: 4 };
    const { samples } = await heard({
      tracks: [
        { type: "video", clips: [{ src: "a.mp4", duration: 1 }] },
        {
          type: "audio",
          clips: [
            { ...loud, start: 0 },
            { ...loud, start: 0 },
          ],
        },
      ],
    });
    expect(samples.reduce((most, value) => Math.max(most, Math.abs(value)), 0)).toBeLessThan(1.05);
    expect(level(samples, 0.2, 0.9)).toBeGreaterThan(0.5);
  });

  test("is absent from the file when nothing sounds", async () => {
    const { info } = await bench.render({
      timeline: { tracks: [{ type: "video", clips: [{ src: "talk.mp4", volume: 0 }] }] },
      output: tiny,
    });
    expect(info).toMatchObject({ hasAudio: false });
  });
});

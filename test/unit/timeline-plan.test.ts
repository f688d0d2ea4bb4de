import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { asAppError } from "../../lib/errors.ts";
import type { MediaFacts } from "../../services/compose/media/probe-facts.policy.ts";
import { checkMemory, sourceBytes } from "../../services/compose/timeline/memory.policy.ts";
import { frameAt, parseRate, toUs } from "../../services/compose/timeline/time.plan.ts";
import { planTimeline } from "../../services/compose/timeline/timeline.plan.ts";
import {
  Output,
  type OutputInput,
  Timeline,
  type TimelineInput,
} from "../../services/compose/timeline/timeline.schema.ts";

const base: MediaFacts = {
  kind: "video",
  format: "MP4",
  demuxer: "mov",
  durationMs: 10_000,
  width: 1920,
  height: 1080,
  pixelAspect: { num: 1, den: 1 },
  rotation: 0,
  uprightFilters: "",
  fps: { num: 25, den: 1 },
  vfr: false,
  frames: 250,
  hasVideo: true,
  hasAudio: true,
  audio: { rate: 48_000, channels: 2, codec: "aac", durationMs: 10_000 },
  codec: "h264",
  hasAlpha: false,
};
const facts = new Map<string, MediaFacts>([
  ["v", base],
  ["mute", { ...base, hasAudio: false, audio: undefined }],
  [
    "i",
    {
      ...base,
      kind: "image",
      durationMs: 0,
      fps: undefined,
      frames: 1,
      hasAudio: false,
      audio: undefined,
    },
  ],
  ["s", { ...base, kind: "audio", hasVideo: false, width: 0, height: 0, fps: undefined }],
]);

const plan = (timeline: TimelineInput, output: OutputInput = {}) => {
  const parsed = Timeline.parse(timeline);
  const cues = new Map(
    parsed.tracks.flatMap((track, at) =>
      track.type === "subtitle" ? [[at, track.cues ?? []] as const] : [],
    ),
  );
  return planTimeline(parsed, Output.parse(output), facts, cues);
};
type Clips = Extract<TimelineInput["tracks"][number], { type: "video" }>["clips"];
const main = (...clips: Clips): TimelineInput => ({ tracks: [{ type: "video", clips }] });
const reasonOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    const known = asAppError(error);
    if (known?.type === "TIMELINE_INVALID") return String(known.data.reason);
    throw error;
  }
  return "no error";
};

const rates = fc.constantFrom(10, 24, 25, 30, 60, "24000/1001", "30000/1001", "60000/1001");
const clip = fc.record(
  {
    src: fc.constantFrom("v", "mute", "i"),
    duration: fc.integer({ min: 600, max: 9_000 }).map((ms) => ms / 1000),
    speed: fc.constantFrom(0.5, 1, 1.5, 2),
    transition: fc.record({ duration: fc.integer({ min: 40, max: 250 }).map((ms) => ms / 1000) }),
    fill: fc.constantFrom("freeze" as const, "loop" as const),
  },
  { requiredKeys: ["src", "duration"] },
);

describe("the plan of any main track", () => {
  test("has as many frames as its clips less their overlaps, without gaps, in order", () => {
    fc.assert(
      fc.property(fc.array(clip, { minLength: 1, maxLength: 12 }), rates, (clips, fps) => {
        const { main: pieces, frames } = plan(main(...clips), { fps });
        const sum = pieces.reduce((n, { piece }) => n + piece.frames, 0);
        const overlaps = pieces.reduce((n, { transition }) => n + (transition?.frames ?? 0), 0);
        expect(frames).toBe(sum - overlaps);
        for (const [n, piece] of pieces.entries()) {
          const before = pieces[n - 1];
          const expected = before
            ? before.startFrame + before.piece.frames - (before.transition?.frames ?? 0)
            : 0;
          expect(piece.startFrame).toBe(expected);
          expect(piece.piece.frames).toBeGreaterThan(0);
        }
      }),
      { numRuns: 200, seed: 11 },
    );
  });

  test("is rounded once: its length is that of the sum of its times, however many clips it has", () => {
    fc.assert(
      fc.property(fc.array(clip, { minLength: 1, maxLength: 40 }), rates, (clips, fps) => {
        const us = clips.reduce(
          (sum, { duration, transition }, n) =>
            sum + toUs(duration) - (n < clips.length - 1 ? toUs(transition?.duration ?? 0) : 0),
          0,
        );
        expect(plan(main(...clips), { fps }).frames).toBe(frameAt(us, parseRate(fps)));
      }),
      { numRuns: 200, seed: 12 },
    );
  });

  test("gives each clip a source for every frame, or says how long the last one is held", () => {
    fc.assert(
      fc.property(fc.array(clip, { minLength: 1, maxLength: 8 }), rates, (clips, fps) => {
        const { main: pieces, notes } = plan(main(...clips), { fps });
        for (const { piece } of pieces) {
          if (piece.type !== "picture") continue;
          const has = piece.takes.reduce((n, take) => n + take.frames, 0);
          expect(has).toBeLessThanOrEqual(piece.frames);
          if (has < piece.frames)
            expect(notes.join("\n")).toContain(
              `${piece.path}: its last frame is held for ${piece.frames - has} frames`,
            );
        }
      }),
      { numRuns: 100, seed: 13 },
    );
  });

  test("has sounds that lie under their pictures and lanes without overlaps", () => {
    fc.assert(
      fc.property(fc.array(clip, { minLength: 1, maxLength: 12 }), rates, (clips, fps) => {
        const { audio, samples } = plan(main(...clips), { fps });
        for (const lane of audio?.program ?? []) {
          let end = 0;
          for (const sound of lane) {
            expect(sound.startSample).toBeGreaterThanOrEqual(end);
            end = sound.startSample + sound.samples;
          }
          expect(end).toBeLessThanOrEqual(samples);
        }
      }),
      { numRuns: 100, seed: 14 },
    );
  });

  test("is the same for the same timeline", () => {
    const timeline = main({ src: "v", transition: {} }, { src: "i", zoom: {} });
    expect(plan(timeline)).toEqual(plan(timeline));
  });
});

describe("the length of the video", () => {
  const tracks: TimelineInput["tracks"] = [
    { type: "video", clips: [{ src: "mute", duration: 2 }] },
    { type: "audio", clips: [{ src: "s", duration: 3.5 }] },
    { type: "text", clips: [{ text: "x", start: 1, duration: 4 }] },
  ];
  test.each([
    { durationFrom: "video" as const, frames: 50 },
    { durationFrom: "audio" as const, frames: 88 },
    { durationFrom: "longest" as const, frames: 125 },
  ])("comes from the $durationFrom", ({ durationFrom, frames }) => {
    expect(plan({ tracks }, { fps: 25, durationFrom }).frames).toBe(frames);
  });
  test("is that of the texts where there is no picture", () => {
    expect(plan({ tracks: tracks.slice(2) }, { fps: 25 }).frames).toBe(125);
  });
});

describe("a timeline that cannot be is refused by path and reason", () => {
  test.each<{ name: string; timeline: TimelineInput; reason: RegExp; output?: OutputInput }>([
    {
      name: "trim after the end",
      timeline: main({ src: "v" }, { src: "v", trim: { start: 12 } }),
      reason: /^tracks\[0\]\.clips\[1\]\.trim\.start: 12 is not before the end .* 10 seconds/,
    },
    {
      name: "trim past the end",
      timeline: main({ src: "v", trim: { end: 11 } }),
      reason: /^tracks\[0\]\.clips\[0\]\.trim\.end: 11 is past the end .* 10 seconds/,
    },
    {
      name: "clip before the end of another",
      timeline: main({ src: "i", duration: 3 }, { src: "i", start: 2 }),
      reason: /^tracks\[0\]\.clips\[1\]\.start: 2 is before the end of the clip before it \(3\)/,
    },
    {
      name: "start that contradicts a transition",
      timeline: main({ src: "i", duration: 3, transition: {} }, { src: "i", start: 3 }),
      reason: /^tracks\[0\]\.clips\[1\]\.start: must be 2\.5 because of the transition/,
    },
    {
      name: "transitions longer than the clip",
      timeline: main(
        { src: "i", transition: { duration: 1 } },
        { src: "i", duration: 1.5, transition: { duration: 1 } },
        { src: "i" },
      ),
      reason: /^tracks\[0\]\.clips\[1\]\.transition: the clip has 45 frames, .* need 60/,
    },
    {
      name: "clip shorter than a frame",
      timeline: main({ src: "i", duration: 0.01 }),
      reason: /^tracks\[0\]\.clips\[0\]: lasts 0\.01 seconds, which is less than a frame/,
    },
    {
      name: "fades longer than the clip",
      timeline: main({ src: "i", duration: 1, fadeIn: 0.6, fadeOut: 0.6 }),
      reason: /^tracks\[0\]\.clips\[0\]: fadeIn and fadeOut together .* 1 seconds/,
    },
    {
      name: "sound in a picture track",
      timeline: main({ src: "s" }),
      reason: /^tracks\[0\]\.clips\[0\]: its source has no picture/,
    },
    {
      name: "silent video in an audio track",
      timeline: { tracks: [{ type: "audio", clips: [{ src: "s" }, { src: "mute" }] }] },
      reason: /^tracks\[0\]\.clips\[1\]: its source has no sound/,
    },
    {
      name: "image told to be a video",
      timeline: main({ src: "i", kind: "video" }),
      reason: /^tracks\[0\]\.clips\[0\]\.kind: is "video", but the source is image/,
    },
    {
      name: "length from sound that is not there",
      timeline: main({ src: "i" }),
      output: { durationFrom: "audio" },
      reason: /^output\.durationFrom: is "audio", but no audio track has a clip/,
    },
    {
      name: "music that is a picture",
      timeline: { ...main({ src: "i" }), music: { src: "i" } },
      reason: /^music: its source has no sound/,
    },
    {
      name: "a short video repeated for hours",
      timeline: main({ src: "v", trim: { end: 0.1 }, duration: 3600, fill: "loop" }),
      reason: /^tracks\[0\]\.clips\[0\]\.fill: would repeat the source 36000 times; at most 200/,
    },
  ])("$name", ({ timeline, reason, output }) => {
    expect(reasonOf(() => plan(timeline, output))).toMatch(reason);
  });
});

describe("the memory of a plan", () => {
  test("grows with its open sources, and one that is too much is refused with numbers", () => {
    const many = plan(main(...Array.from({ length: 100 }, () => ({ src: "v", duration: 1 }))));
    expect(sourceBytes(many, facts)).toBe(100 * 1920 * 1080 * 18);
    expect(reasonOf(() => checkMemory(many, facts, 2e9))).toMatch(
      /^timeline: its pictures need about 3\.7 GB .* gives a render 2\.0 GB/,
    );
    expect(reasonOf(() => checkMemory(many, facts, 4e9))).toBe("no error");
  });
});

describe("the place of a source on the canvas", () => {
  const placed = (source: Partial<MediaFacts>, fit: "cover" | "contain", output: OutputInput) => {
    const timeline = Timeline.parse(main({ src: "x", fit }));
    const one = new Map([["x", { ...base, ...source }]]);
    const [first] = planTimeline(timeline, Output.parse(output), one, new Map()).main;
    return first?.piece.type === "picture" ? first.piece : undefined;
  };
  const upright = { width: 1080, height: 1920 };
  test("is the middle of a wide source that covers an upright canvas", () => {
    expect(placed({}, "cover", upright)?.placement).toEqual({
      crop: { x: 656, y: 0, width: 608, height: 1080 },
      ...upright,
    });
  });
  test("allows for pixels that are not square, turned or not", () => {
    const wide = { width: 720, height: 576, pixelAspect: { num: 64, den: 45 } };
    expect(placed(wide, "contain", { width: 1024, height: 1024 })?.placement).toEqual({
      width: 1024,
      height: 576,
    });
    const turned = { ...wide, width: 576, height: 720, rotation: 90 as const };
    expect(placed(turned, "contain", { width: 1024, height: 1024 })?.placement).toEqual({
      width: 576,
      height: 1024,
    });
  });
  test("needs no scaling where the source has the canvas's size", () => {
    const piece = placed(upright, "contain", upright);
    expect(piece?.placement).toEqual(upright);
    expect(piece?.surround).toBeUndefined();
  });
});

describe("the schema", () => {
  const issue = (value: unknown) =>
    Timeline.safeParse(value).error?.issues.map(
      ({ path, message }) => `${path.join(".")} ${message}`,
    );
  test("takes the smallest timeline and fills in the rest", () => {
    const tracks = [{ type: "video", clips: [{ src: "i", duration: 3 }] }];
    const parsed = Timeline.parse({ tracks });
    expect(planTimeline(parsed, Output.parse({}), facts, new Map())).toMatchObject({
      width: 1080,
      height: 1920,
      frames: 90,
      audio: undefined,
    });
  });
  test.each([
    { name: "no track", value: { tracks: [] } },
    { name: "a track without clips", value: { tracks: [{ type: "video", clips: [] }] } },
    {
      name: "an unknown field",
      value: { tracks: [{ type: "video", clips: [{ src: "i", durations: 3 }] }] },
    },
    {
      name: "a negative time",
      value: { tracks: [{ type: "video", clips: [{ src: "i", start: -1 }] }] },
    },
    {
      name: "an absurd time",
      value: { tracks: [{ type: "video", clips: [{ src: "i", duration: 1e9 }] }] },
    },
    {
      name: "a time that is no number",
      value: { tracks: [{ type: "video", clips: [{ src: "i", duration: "3" }] }] },
    },
    {
      name: "two main tracks",
      value: { tracks: [main({ src: "i" }).tracks[0], main({ src: "i" }).tracks[0]] },
    },
    {
      name: "a cue that ends before it starts",
      value: { tracks: [{ type: "subtitle", cues: [{ start: 2, end: 1, text: "x" }] }] },
    },
    {
      name: "cues and an SRT at once",
      value: { tracks: [{ type: "subtitle", cues: [{ start: 0, end: 1, text: "x" }], srt: "" }] },
    },
  ])("refuses $name", ({ value }) => {
    expect(issue(value)).toHaveLength(1);
  });
  test.each([
    { width: 1081 },
    { height: 8 },
    { fps: 0 },
    { fps: 120 },
    { fps: "1/0" },
    { fps: 29.97 },
  ])("refuses the output %p", (output) => expect(Output.safeParse(output).success).toBe(false));
});

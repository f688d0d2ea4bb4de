import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { composeExecutor } from "../../services/compose/compose.executor.ts";
import { ComposePayload } from "../../services/compose/compose.payload.ts";
import { composeTimeline } from "../../services/compose/compose.plan.ts";
import { TimelineRequest } from "../../services/compose/timeline/timeline.schema.ts";
import { openToolsBench, type ToolsBench } from "../support/executor-tools.ts";
import { mediaMaker } from "../support/lavfi.ts";

let bench: ToolsBench;
beforeEach(async () => {
  bench = await openToolsBench();
});
afterEach(() => bench.close());

const store = (name: string): string => {
  const file = join(bench.dir, name);
  bench.objects.set(`${bench.config.OSS_BUCKET_NAME}/${name}`, file);
  return file;
};
const timelineOf = (task: Record<string, unknown>) =>
  TimelineRequest.parse(composeTimeline(ComposePayload.parse(task)));

describe("a simple composition", () => {
  test("renders images and a video under a voice exactly as long as the voice", async () => {
    const maker = await mediaMaker(bench.config);
    await maker.image(store("a.png"), "120x200");
    await maker.video(store("b.mp4"), "160x90", 1);
    await maker.sound(store("voice.wav"), 2);
    await maker.sound(store("music.wav"), 1);
    const task = ComposePayload.parse({
      media: [{ src: "a.png", duration: 1 }, { src: "b.mp4" }],
      audio: "voice.wav",
      music: "music.wav",
      subtitles: [{ start: 0, end: 1, text: "你好, world" }],
      title: "旅行",
      width: 96,
      height: 160,
      fps: 25,
      quality: "draft",
    });
    const result = await composeExecutor.execute(task, bench.tools);
    expect(result.info).toMatchObject({ frames: 50, width: 96, height: 160, hasAudio: true });
    expect(result.outputs[0]).toMatchObject({ role: "media", contentType: "video/mp4" });
  });

  test("names the clip of a source that is not there", async () => {
    const task = ComposePayload.parse({ media: [{ src: "nothing.png" }] });
    await expect(composeExecutor.execute(task, bench.tools)).rejects.toMatchObject({
      type: "MEDIA_UNREADABLE",
      data: { clip: "tracks[0].clips[0]" },
    });
  });
});

describe("the timeline of a simple composition", () => {
  test("zooms images, lets videos be, and goes over into the next clip", () => {
    const { timeline } = timelineOf({
      media: [{ src: "a.jpg" }, { src: "b.mp4" }, { src: "c.png" }],
    });
    const clips = timeline.tracks[0]?.type === "video" ? timeline.tracks[0].clips : [];
    expect(clips.map(({ zoom }) => zoom !== undefined)).toEqual([true, false, true]);
    expect(clips.map(({ transition }) => transition?.duration)).toEqual([0.5, 0.5, undefined]);
  });

  test("a transition is never longer than the clips around it bear", () => {
    const { timeline } = timelineOf({ media: [{ src: "a.jpg", duration: 0.6 }, { src: "b.jpg" }] });
    const clips = timeline.tracks[0]?.type === "video" ? timeline.tracks[0].clips : [];
    expect(clips[0]?.transition?.duration).toBeCloseTo(0.2);
  });

  test("without a voice the pictures set the length, with one the voice does", () => {
    const media = [{ src: "a.jpg" }];
    expect(timelineOf({ media }).output.durationFrom).toBe("video");
    expect(timelineOf({ media, audio: "v.wav" }).output).toMatchObject({
      durationFrom: "audio",
      fill: "loop",
    });
  });

  test("subtitles may be cues or an SRT text", () => {
    const srt = "1\n00:00:00,000 --> 00:00:01,000\n你好\n";
    const media = [{ src: "a.jpg" }];
    expect(timelineOf({ media, subtitles: srt }).timeline.tracks[1]).toMatchObject({ srt });
    const cues = [{ start: 0, end: 1, text: "hi" }];
    expect(timelineOf({ media, subtitles: cues }).timeline.tracks[1]).toMatchObject({ cues });
  });

  test.each([
    [{ media: [] }, "media"],
    [{ media: [{ src: "a.jpg", duration: -1 }] }, "media.0.duration"],
    [{ media: [{ src: "a.jpg" }], colour: "red" }, ""],
    [{ media: [{ src: "a.jpg" }], width: 101 }, "width"],
  ])("%j is refused at its field", (task, path) => {
    const parsed = ComposePayload.safeParse(task);
    expect(parsed.error?.issues[0]?.path.join(".")).toBe(path);
  });
});

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  fitDurations,
  languageOfText,
  partsOf,
  sentencesOf,
  speakingMs,
} from "../../services/aigc/script.plan.ts";
import { planScenes, readIdea } from "../../services/aigc/storyboard.plan.ts";
import { assignMaterials, timelineOf } from "../../services/aigc/storyboard-timeline.plan.ts";
import { TimelineRequest } from "../../services/compose/timeline/timeline.schema.ts";

describe("sentences of a script", () => {
  test("Chinese and English punctuation end a sentence, also without spaces", () => {
    expect(sentencesOf("面是手工的。汤熬了八小时！你想试试吗？来吧")).toEqual([
      "面是手工的。",
      "汤熬了八小时！",
      "你想试试吗？",
      "来吧",
    ]);
    expect(sentencesOf("One bowl. Fifteen minutes! Ready?\nGo")).toEqual([
      "One bowl.",
      "Fifteen minutes!",
      "Ready?",
      "Go",
    ]);
  });

  test("numbers and abbreviations do not end one", () => {
    expect(sentencesOf("Dr. Chen paid 3.50 for it. Really.")).toEqual([
      "Dr. Chen paid 3.50 for it.",
      "Really.",
    ]);
  });

  test("marks without words are no sentence, and no word is lost", () => {
    expect(sentencesOf("……\n!!!\n ")).toEqual([]);
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("面", "soup ", "。", ". ", "！", "\n", "3.5 "), { maxLength: 40 }),
        (parts) => {
          const script = parts.join("");
          const letters = (text: string) => text.replace(/[^\p{L}\p{N}]/gu, "");
          expect(sentencesOf(script).map(letters).join("")).toBe(letters(script));
        },
      ),
    );
  });

  test("a sentence too long for a scene is cut at its commas", () => {
    const long = `${"这是很长的一段话".repeat(8)}，${"后面还有很多内容".repeat(8)}。`;
    const parts = partsOf(long, 20_000);
    expect(parts).toHaveLength(2);
    expect(parts.join("")).toBe(long);
  });

  test("ten thousand characters without any punctuation still become scenes of bounded length", () => {
    for (const script of ["面".repeat(10_000), "word ".repeat(2_000), "a".repeat(10_000)]) {
      const { scenes } = planScenes({ script });
      expect(scenes.length).toBeLessThanOrEqual(60);
      const letters = (text: string) => text.replaceAll(/\s/g, "");
      expect(letters(scenes.map(({ text }) => text).join(""))).toBe(letters(script));
      if (!script.startsWith("a"))
        for (const { text } of scenes) expect(text.length).toBeLessThanOrEqual(2_000);
    }
  });

  test("reading time grows with characters in Chinese and with words in English", () => {
    expect(speakingMs("一二三四五六七八九")).toBe(2_300);
    expect(speakingMs("one two three four five")).toBe(2_300);
    expect(languageOfText("深夜的 noodle 店")).toBe("zh");
    expect(languageOfText("A night at 面馆, with friends")).toBe("en");
  });
});

describe("durations", () => {
  test("stretched or squeezed durations add up to the target, none below the shortest", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1_500, max: 12_000 }), { minLength: 1, maxLength: 30 }),
        fc.double({ min: 0.85, max: 3, noNaN: true }),
        (natural, factor) => {
          const total = natural.reduce((sum, ms) => sum + ms, 0);
          const target = Math.round((total * factor) / 100) * 100;
          const fitted = fitDurations(natural, target, { shortestMs: 1_200, fastest: 1.4 });
          expect(fitted.reduce((sum, ms) => sum + ms, 0)).toBe(target);
          expect(Math.min(...fitted)).toBeGreaterThanOrEqual(1_200);
        },
      ),
    );
  });

  test("a target that nobody could follow is not met, and the plan says so", () => {
    const script = "这是一个非常非常长的句子，里面有很多很多内容。".repeat(10);
    const { scenes, notes } = planScenes({ script, targetMs: 5_000 });
    const total = scenes.reduce((sum, { durationMs }) => sum + durationMs, 0);
    expect(total).toBeGreaterThan(20_000);
    expect(notes.join()).toContain("Shorten the script");
  });
});

describe("storyboard from words", () => {
  test("a script keeps its words; each sentence is a scene", () => {
    const plan = planScenes({ script: "Night falls. The shop opens. Come in." });
    expect(plan).toMatchObject({ source: "script", language: "en", notes: [] });
    expect(plan.scenes.map(({ text }) => text)).toEqual([
      "Night falls.",
      "The shop opens.",
      "Come in.",
    ]);
  });

  test("an idea becomes hook, its own points and call to action, and is labelled a template", () => {
    expect(readIdea("深夜面馆：手工面、老汤，老板的故事。")).toEqual({
      topic: "深夜面馆",
      points: ["手工面", "老汤", "老板的故事"],
    });
    const plan = planScenes({ idea: "深夜面馆：手工面、老汤，老板的故事。", targetMs: 30_000 });
    expect(plan.source).toBe("template");
    expect(plan.scenes.map(({ role }) => role)).toEqual([
      "hook",
      "point",
      "point",
      "point",
      "call-to-action",
    ]);
    expect(plan.scenes[0]!.text).toContain("深夜面馆");
    expect(plan.scenes[2]!.text).toContain("老汤");
    expect(plan.scenes.reduce((sum, { durationMs }) => sum + durationMs, 0)).toBe(30_000);
    expect(plan.notes.join()).toContain("template");
  });

  test("more sentences than scenes are merged without losing words", () => {
    const script = Array.from({ length: 90 }, (_, n) => `Sentence number ${n}.`).join(" ");
    const { scenes } = planScenes({ script });
    expect(scenes).toHaveLength(60);
    expect(scenes.map(({ text }) => text).join(" ")).toBe(script);
  });

  test("every plan gives a timeline that the composition accepts, as long as its scenes", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("Night falls.", "店开了。", "Come in, sit down, and eat!"), {
          minLength: 1,
          maxLength: 12,
        }),
        fc.array(fc.constantFrom("a.jpg", "b.mp4", "https://x.example/c.png?sig=1"), {
          maxLength: 20,
        }),
        (sentences, materials) => {
          const { scenes, title } = planScenes({ script: sentences.join("\n") });
          const assigned = assignMaterials(scenes.length, materials);
          const request = timelineOf(
            scenes.map((scene, index) => ({ ...scene, materials: assigned[index]! })),
            { title, frame: { width: 1080, height: 1920, fps: 30, quality: "draft" } },
          );
          const { timeline } = TimelineRequest.parse(request);
          const total = scenes.reduce((sum, { durationMs }) => sum + durationMs, 0) / 1000;
          const [track] = timeline.tracks;
          const end =
            track?.type === "video"
              ? track.clips.reduce(
                  (sum, { duration, transition }) => sum + duration! - (transition?.duration ?? 0),
                  0,
                )
              : track?.type === "text"
                ? Math.max(...track.clips.map(({ start, duration }) => start + duration!))
                : 0;
          expect(end).toBeCloseTo(total, 1);
        },
      ),
    );
  });

  test("materials keep their order: shared out when there are more, repeated when there are fewer", () => {
    expect(assignMaterials(2, ["a", "b", "c", "d", "e"])).toEqual([
      ["a", "b"],
      ["c", "d", "e"],
    ]);
    expect(assignMaterials(3, ["a", "b"])).toEqual([["a"], ["b"], ["a"]]);
    expect(assignMaterials(2, [])).toEqual([[], []]);
  });
});

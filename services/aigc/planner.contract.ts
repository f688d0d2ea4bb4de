import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";
import { aigcLimits } from "./config.ts";

const limits = aigcLimits.storyboard;
const Source = z.string().min(1).max(4000).describe("URL, oss://bucket/key, or storage key");

export const StoryboardRequest = z
  .strictObject({
    script: z
      .string()
      .min(1)
      .max(limits.scriptCharactersMax)
      .optional()
      .describe("The spoken text, sentence by sentence. Better than an idea: write it yourself"),
    idea: z
      .string()
      .min(1)
      .max(limits.ideaCharactersMax)
      .optional()
      .describe('A topic, best with points: "Night noodles: hand-pulled, old broth, the owner"'),
    title: z.string().trim().min(1).max(200).optional(),
    language: z.enum(["zh", "en"]).optional().describe("Default: the language of the text"),
    duration_seconds: z
      .number()
      .min(limits.durationSecondsMin)
      .max(limits.durationSecondsMax)
      .optional()
      .describe("Wanted length; default: as long as the words take to be said"),
    materials: z
      .array(Source)
      .max(limits.materialsMax)
      .default([])
      .describe(
        "Pictures and videos in the order in which they may be shown; without any, the words fill the picture",
      ),
    music: Source.optional().describe("Background music"),
    format: z
      .enum(["vertical", "horizontal", "square"])
      .default("vertical")
      .describe("1080x1920, 1920x1080 or 1080x1080"),
    quality: z.enum(["draft", "standard", "high"]).default("standard"),
    narrate: z
      .boolean()
      .default(false)
      .describe("Speak the scenes with batch_dubbing and time them by the voice"),
    voice: z.string().max(32).optional().describe("Voice of narrate, from list_voices"),
  })
  .superRefine(({ script, idea }, ctx) => {
    if ((script === undefined) === (idea === undefined))
      ctx.addIssue({
        code: "custom",
        path: [script === undefined ? "script" : "idea"],
        message: "give exactly one of script and idea",
      });
    if (![script, idea].some((text) => text !== undefined && /[\p{L}\p{N}]/u.test(text)))
      ctx.addIssue({
        code: "custom",
        path: [script === undefined ? "idea" : "script"],
        message: "must have words in it",
      });
  });

const SceneAnswer = z.object({
  id: z.string(),
  role: z.enum(["hook", "point", "call-to-action", "scene"]),
  text: z.string(),
  visual: z.string().describe("What should be seen"),
  start_ms: z.int(),
  duration_ms: z.int(),
  materials: z.array(z.string()),
  audio: z.string().optional(),
});

/** Storyboards made from words. The records themselves are the resource `aigc.storyboard`. */
export const plannerContract = defineContract({
  name: "aigc.planner",
  about: "Storyboards from ideas and scripts",
  actions: {
    storyboard: action({
      summary: "Plan a video from a script or an idea",
      access: ["agent", "admin"],
      timeoutMs: aigcLimits.dubbing.batchMs,
      input: StoryboardRequest,
      output: z.object({
        storyboard_id: z.string(),
        title: z.string(),
        language: z.enum(["zh", "en"]),
        source: z
          .enum(["script", "template"])
          .describe("template: the words are a structure to be rewritten, nobody wrote them"),
        total_ms: z.int(),
        scenes: z.array(SceneAnswer),
        lines: z
          .array(z.object({ id: z.string(), text: z.string() }))
          .describe("Ready as lines of batch_dubbing"),
        request: z
          .record(z.string(), z.unknown())
          .describe("Ready as arguments of compose_timeline_ffmpeg: { timeline, output }"),
        notes: z.array(z.string()),
      }),
      errors: ["VOICE_MISSING"],
      mcp: {
        tool: "generate_storyboard",
        title: "Plan a video",
        description:
          "Turn a script (best) or an idea into a storyboard: scenes with text, timing and what should be seen, stored as a record. The answer's request goes as it is to compose_timeline_ffmpeg; with materials they are laid over the scenes, without any the words fill the picture. narrate: true also speaks the scenes and times them by the voice. From an idea alone it builds a structure (hook, points, call to action) with source: template: rewrite its words and call again with script.",
      },
    }),
  },
});

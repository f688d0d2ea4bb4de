import { z } from "zod";
import { defineResource } from "../../mixins/resource.ts";

/** One scene; in their order the scenes become the clips of a timeline. */
export const Scene = z.strictObject({
  id: z
    .string()
    .regex(/^[\w-]{1,64}$/)
    .describe("Unique within the storyboard"),
  text: z.string().max(2000).default("").describe("Narration"),
  visual: z.string().max(2000).default("").describe("What is to be seen"),
  durationMs: z.int().min(100).max(600_000),
  src: z.string().min(1).max(4000).optional().describe("Picture or video: URL or storage key"),
  audio: z.string().min(1).max(4000).optional().describe("Voice of this scene: URL or storage key"),
  caption: z.string().max(500).optional().describe("Words burnt into the picture"),
});
export type Scene = z.infer<typeof Scene>;

export const storyboard = defineResource({
  service: "aigc.storyboard",
  about: "Storyboards",
  label: "storyboard",
  path: "/aigc/admin/storyboard",
  cached: true,
  access: { read: ["admin", "agent"], write: ["admin", "agent"] },
  fields: z.object({
    title: z.string().trim().min(1).max(200),
    idea: z.string().max(20_000).optional().describe("What it was made from"),
    script: z.string().max(100_000).optional().describe("The spoken text as a whole"),
    language: z
      .string()
      .regex(/^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$/, "must be a language tag such as zh or en-GB")
      .default("zh"),
    scenes: z
      .array(Scene)
      .max(200)
      .refine((scenes) => new Set(scenes.map(({ id }) => id)).size === scenes.length, {
        error: "every scene must have an id of its own",
      })
      .default([]),
    status: z.enum(["draft", "ready", "composed"]).default("draft"),
    job_id: z.uuid().optional().describe("Latest composition of it"),
  }),
  filters: ["status", "language", "title"],
  sorts: ["title", "status"],
  search: ["title", "idea", "script"],
});

export const storyboardContract = storyboard.contract;

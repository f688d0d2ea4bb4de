import { z } from "zod";

const Even = z
  .int()
  .min(16)
  .max(7680)
  .refine((n) => n % 2 === 0, "must be even, since the video format stores colour for 2x2 pixels");

/**
 * What a job of kind "enhance" is given. The operations document (section 4) names the route and leaves
 * the payload open.
 */
export const EnhancePayload = z
  .strictObject({
    src: z
      .string()
      .min(1)
      .max(4096)
      .describe(
        "Video or image: an http(s) URL, an object as oss://bucket/key, or the key of an object in the default bucket",
      ),
    scale: z
      .union([z.literal(2), z.literal(4)])
      .optional()
      .describe(
        "Times the width and height of the source; default 2, unless width or height is given",
      ),
    width: Even.optional().describe("Or the width of the result; the height follows the source"),
    height: Even.optional().describe("Or the height; with width, the source is fitted inside both"),
    denoise: z.number().min(0).max(1).default(0.3).describe("0 leaves noise, 1 removes the most"),
    sharpen: z.number().min(0).max(1).default(0.4).describe("0 none, 1 the most"),
    fps: z
      .number()
      .min(1)
      .max(60)
      .optional()
      .describe("Frames per second of the result; default: as the source. Videos only"),
    quality: z.enum(["draft", "standard", "high"]).default("high").describe("Of the encoding"),
  })
  .refine(
    (task) => task.scale === undefined || (task.width === undefined && task.height === undefined),
    {
      error: "give either scale, or width and height",
      path: ["scale"],
    },
  )
  .describe("Upscales a video or an image, removes noise and sharpens it; sound is kept as it is");
export type EnhancePayload = z.output<typeof EnhancePayload>;

import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";
import { aigcLimits } from "./config.ts";

const limits = aigcLimits.dubbing;
const access = ["agent", "admin"] as const;

const Voice = z
  .string()
  .regex(/^[a-z][a-z0-9-]{1,31}$/i, "must be the name of a voice, such as cmn or en-us")
  .describe("Name from list_voices, such as cmn (Mandarin) or en-us; default: by the text");
const Speed = z
  .number()
  .min(limits.speedMin)
  .max(limits.speedMax)
  .describe("1 is the voice's usual speed, 2 twice as fast");
const Pitch = z.number().min(-1).max(1).describe("-1 low, 0 usual, 1 high");

const DubbingLine = z.strictObject({
  id: z
    .string()
    .regex(/^[\w.-]{1,64}$/, "must be 1 to 64 letters, digits, dots or dashes")
    .optional()
    .describe("Your name for the line; default: line-1, line-2, ..."),
  text: z
    .string()
    .max(limits.lineCharactersMax)
    .refine((text) => /[\p{L}\p{N}]/u.test(text), "must have something to speak in it"),
  voice: Voice.optional(),
  speed: Speed.optional(),
  pitch: Pitch.optional(),
});

export const DubbingRequest = z
  .strictObject({
    lines: z
      .array(DubbingLine)
      .min(1)
      .max(limits.linesMax)
      .describe("Spoken each to a file of its own"),
    voice: Voice.optional(),
    speed: Speed.default(1),
    pitch: Pitch.default(0),
  })
  .superRefine(({ lines }, ctx) => {
    const seen = new Set<string>();
    lines.forEach(({ id }, index) => {
      if (id !== undefined && seen.has(id))
        ctx.addIssue({
          code: "custom",
          path: ["lines", index, "id"],
          message: `"${id}" is the id of another line already`,
        });
      if (id !== undefined) seen.add(id);
    });
    if (lines.reduce((sum, { text }) => sum + text.length, 0) > limits.charactersMax)
      ctx.addIssue({
        code: "custom",
        path: ["lines"],
        message: `at most ${limits.charactersMax} characters in all lines together`,
      });
  });
export type DubbingRequest = z.output<typeof DubbingRequest>;

const SpokenLine = z.object({
  id: z.string(),
  text: z.string(),
  voice: z.string(),
  duration_ms: z.int().describe("Length of the audio: give the scene at least this long"),
  bucket: z.string(),
  key: z.string(),
  url: z.string().describe("Use it as src of an audio clip"),
  bytes: z.int(),
});

/** Speech for videos. The voice is the port in `speech/`. */
export const dubbingContract = defineContract({
  name: "aigc.dubbing",
  about: "Speech",
  actions: {
    batch: action({
      summary: "Speak lines to audio objects",
      access,
      timeoutMs: limits.batchMs,
      input: DubbingRequest,
      output: z.object({
        batch_id: z.uuid(),
        provider: z.string(),
        total_ms: z.int(),
        lines: z.array(SpokenLine),
      }),
      errors: ["VOICE_MISSING", "UNAVAILABLE", "STORAGE_FAILED"],
      mcp: {
        tool: "batch_dubbing",
        title: "Speak lines",
        description:
          "Speak a list of lines, each to an audio file (WAV) of its own, in Chinese or English or another language of list_voices. Returns for each line its url and duration_ms: use the url as src of an audio clip and duration_ms to time the scene. Either all lines are spoken or none is kept. Reports progress line by line.",
      },
    }),
    voices: action({
      summary: "Voices that lines can be spoken with",
      access,
      input: z.strictObject({
        language: z
          .string()
          .max(35)
          .optional()
          .describe("Only voices of this language, such as en"),
      }),
      output: z.object({
        provider: z.string(),
        voices: z.array(z.object({ name: z.string(), language: z.string(), about: z.string() })),
      }),
      errors: ["VOICE_MISSING"],
      idempotent: true,
      mcp: {
        tool: "list_voices",
        title: "Voices",
        description:
          "Voices that batch_dubbing can speak with, by name and language. Give language (cmn, en, ja, ...) to see only those.",
        readOnly: true,
      },
    }),
  },
});

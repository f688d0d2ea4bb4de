import { z } from "zod";

const seconds = 1_000;
const minutes = 60 * seconds;
const mebibytes = 1024 ** 2;

/** Limits of everything that brings media in and runs FFmpeg on it. Tests narrow them; nothing else does. */
export const MediaLimits = z.object({
  sourceBytesMax: z
    .int()
    .min(1)
    .default(4096 * mebibytes)
    .describe("Largest source file"),
  connectMs: z
    .int()
    .min(1)
    .default(10 * seconds),
  /** A server that sends nothing for this long is given up. */
  silenceMs: z
    .int()
    .min(1)
    .default(30 * seconds),
  fetchMs: z
    .int()
    .min(1)
    .default(15 * minutes)
    .describe("Longest time for one source"),
  redirectsMax: z.int().min(0).max(20).default(5),
  /** A picture with more pixels needs more memory than a render node spares for it. */
  pixelsMax: z.int().min(1).default(120_000_000),
  sideMax: z.int().min(1).default(30_000),
  durationMsMax: z
    .int()
    .min(1)
    .default(6 * 60 * minutes),
  /** Sources that are fetched or probed at the same time. */
  parallelMax: z.int().min(1).max(32).default(4),
  /** Time that a look at the FFmpeg on hand may take, the test of a GPU encoder included. */
  discoveryMs: z
    .int()
    .min(1)
    .default(20 * seconds),
  /** Area of a contact sheet; as a PNG about a byte and a half for each pixel. */
  contactSheetPixelsMax: z.int().min(10_000).max(4_000_000).default(480_000),
});
export type MediaLimits = z.output<typeof MediaLimits>;

export const mediaLimits: MediaLimits = MediaLimits.parse({});

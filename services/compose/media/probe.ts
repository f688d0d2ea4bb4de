import { open } from "node:fs/promises";
import { AppError } from "../../../lib/errors.ts";
import type { ExecutorTools } from "../executor.ts";
import { mediaLimits } from "./config.ts";
import { findFfmpeg } from "./ffmpeg.ts";
import { failureReason } from "./ffmpeg-failure.policy.ts";
import { jpegOrientation, readSignature, signatureBytes } from "./media-signature.policy.ts";
import { inputArgs, type MediaFacts, type ProbedFile, readFacts } from "./probe-facts.policy.ts";

type ProbeTools = Pick<ExecutorTools, "config" | "run" | "workDir">;

export interface ProbeOptions {
  /** Name of the clip in errors: `tracks[0].clips[2]`, as the client wrote it. */
  clip: string;
  /** What the clip needs, for the error: a video must show something, a voice must sound. */
  expected?: "video" | "image" | "audio" | "picture";
}

const expectedWords = { video: "a video", image: "an image", audio: "audio", picture: "a picture" };

async function readStart(file: string, length: number): Promise<Uint8Array> {
  const handle = await open(file, "r");
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(length), 0, length, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/**
 * Whether the boxes of an MP4 end where the file ends. A half-uploaded file keeps a readable index
 * when that stands at the front, and would only fail in the middle of a render.
 */
async function boxesReachBeyond(file: string): Promise<boolean> {
  const handle = await open(file, "r");
  try {
    const { size } = await handle.stat();
    const header = Buffer.alloc(16);
    let at = 0;
    for (let boxes = 0; at < size && boxes < 10_000; boxes++) {
      const { bytesRead } = await handle.read(header, 0, 16, at);
      if (bytesRead < 8) return boxes > 0 && bytesRead > 0;
      const short = header.readUInt32BE(0);
      if (short === 0) return false; // To the end of the file.
      const length = short === 1 && bytesRead === 16 ? Number(header.readBigUInt64BE(8)) : short;
      if (length < 8) return false;
      at += length;
    }
    return at > size;
  } finally {
    await handle.close();
  }
}

/** What a kind of file must be for its use; a wrong one is told apart from a broken one. */
function misfit(facts: MediaFacts, expected: ProbeOptions["expected"]): string | undefined {
  if (expected === "audio" && !facts.hasAudio)
    return facts.kind === "image" ? "it is an image" : "it has no sound";
  if (expected === "image" && facts.kind !== "image" && facts.format !== "GIF")
    return `it is ${facts.kind === "audio" ? "audio" : "a video"} (${facts.format})`;
  if ((expected === "video" || expected === "picture") && !facts.hasVideo)
    return "it has sound only";
  return undefined;
}

function outOfBounds({ width, height, durationMs }: MediaFacts): string | undefined {
  const { pixelsMax, sideMax, durationMsMax } = mediaLimits;
  if (width * height > pixelsMax || Math.max(width, height) > sideMax)
    return `its picture is ${width}x${height}; at most ${pixelsMax / 1e6} megapixels and ${sideMax} a side`;
  if (durationMs > durationMsMax)
    return `it is ${Math.round(durationMs / 60_000)} minutes long; at most ${durationMsMax / 60_000}`;
  return undefined;
}

/**
 * What a local file is. It is opened only as the format that its first bytes show, with no way to
 * reach other files or the network. A still image is decoded once, so that half of one is noticed here.
 * @throws AppError MEDIA_UNREADABLE naming the clip and the reason.
 */
export async function probe(
  file: string,
  tools: ProbeTools,
  options: ProbeOptions,
): Promise<MediaFacts> {
  const unreadable = (reason: string) =>
    new AppError("MEDIA_UNREADABLE", {
      clip: options.clip,
      expected: options.expected ? expectedWords[options.expected] : "media",
      reason,
    });
  const { ffmpeg, ffprobe } = await findFfmpeg(tools.config);
  const start = await readStart(file, 128 * 1024);
  const signature = readSignature(start.subarray(0, signatureBytes));
  if ("reason" in signature) throw unreadable(signature.reason);
  const input = { ...signature, hasVideo: false };
  const pixels = ["-max_pixels", String(mediaLimits.pixelsMax)];
  const lines: string[] = [];
  const exit = await tools.run(
    ffprobe,
    // biome-ignore format: option and value side by side
    ["-v", "error", ...inputArgs(input), ...pixels, "-show_streams", "-show_format", "-of", "json=compact=1", file],
    { onLine: (line) => lines.push(line) },
  );
  if (/exceeds (limit|specified max pixel)/i.test(exit.stderrTail))
    throw unreadable(`its picture is too large; at most ${mediaLimits.pixelsMax / 1e6} megapixels`);
  if (exit.code !== 0) throw unreadable(failureReason(exit.stderrTail));
  if (signature.demuxer === "mov" && (await boxesReachBeyond(file)))
    throw unreadable("the file is cut off before its end");
  const orientation = signature.name === "JPEG" ? jpegOrientation(start) : "";
  const facts = readFacts(JSON.parse(lines.join("\n")) as ProbedFile, signature, orientation);
  if ("reason" in facts) throw unreadable(facts.reason);
  const wrong = misfit(facts, options.expected) ?? outOfBounds(facts);
  if (wrong) throw unreadable(wrong);
  if (facts.kind === "image") {
    // Strict, or half a picture counts as one; FFmpeg's strict mode refuses harmless tags of TIFF.
    const strict = facts.format === "TIFF" ? [] : ["-err_detect", "explode"];
    const decoded = await tools.run(
      ffmpeg,
      // biome-ignore format: option and value side by side
      ["-v", "error", "-nostdin", ...strict, ...pixels, ...inputArgs(facts), "-i", file, "-frames:v", "1", "-f", "null", "-"],
    );
    if (decoded.code !== 0)
      throw unreadable(`it is damaged or cut off: ${failureReason(decoded.stderrTail)}`);
  }
  return facts;
}

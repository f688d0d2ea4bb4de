import { mediaLimits } from "./config.ts";
import { capture, type Ffmpeg } from "./ffmpeg.ts";

/** H.264 encoders of graphics hardware that take frames from main memory, best first. */
export const gpuEncoders = ["h264_nvenc", "h264_videotoolbox", "h264_qsv", "h264_amf"] as const;
export type GpuEncoder = (typeof gpuEncoders)[number];

const tested = new Map<string, Promise<GpuEncoder | undefined>>();

async function encodes(ffmpeg: string, encoder: GpuEncoder): Promise<boolean> {
  const { ok } = await capture(
    ffmpeg,
    // biome-ignore format: option and value side by side
    ["-v", "error", "-nostdin", "-f", "lavfi", "-i", "color=size=320x320:rate=25:duration=0.2",
      "-pix_fmt", "yuv420p", "-c:v", encoder, "-f", "null", "-"],
    mediaLimits.discoveryMs,
  );
  return ok;
}

/**
 * The GPU encoder of this machine. A build lists encoders whether or not there is hardware, so one
 * counts only after it has encoded something. Tested once per process.
 */
export function findGpuEncoder(ffmpeg: Ffmpeg): Promise<GpuEncoder | undefined> {
  const known = tested.get(ffmpeg.ffmpeg);
  if (known) return known;
  const search = (async () => {
    for (const encoder of gpuEncoders)
      if (ffmpeg.encoders.includes(encoder) && (await encodes(ffmpeg.ffmpeg, encoder)))
        return encoder;
    return undefined;
  })();
  tested.set(ffmpeg.ffmpeg, search);
  return search;
}

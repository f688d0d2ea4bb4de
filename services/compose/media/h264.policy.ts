import type { GpuEncoder } from "./gpu-encoder.ts";

export type H264Encoder = "libx264" | GpuEncoder;
export type Quality = "draft" | "standard" | "high";

const x264: Record<Quality, readonly string[]> = {
  draft: ["-preset", "ultrafast", "-crf", "28"],
  standard: ["-preset", "veryfast", "-crf", "21"],
  high: ["-preset", "medium", "-crf", "18"],
};
/** Constant quality of the hardware encoders; their scales differ, these look about alike. */
const level: Record<Quality, number> = { draft: 32, standard: 25, high: 20 };

/** Largest side that H.264 encoders in graphics hardware take. */
export const gpuSideMax = 4096;

/** Encoder options for a quality. Pixel format and colour tags belong to the caller. */
export function h264Args(encoder: H264Encoder, quality: Quality): string[] {
  const value = String(level[quality]);
  switch (encoder) {
    case "libx264":
      return ["-c:v", encoder, ...x264[quality]];
    case "h264_nvenc":
      return [
        "-c:v",
        encoder,
        "-preset",
        quality === "draft" ? "p1" : "p5",
        "-rc",
        "vbr",
        "-cq",
        value,
        "-b:v",
        "0",
      ];
    case "h264_videotoolbox":
      return ["-c:v", encoder, "-q:v", String(100 - 2 * level[quality])];
    case "h264_qsv":
      return ["-c:v", encoder, "-global_quality", value];
    case "h264_amf":
      return ["-c:v", encoder, "-rc", "cqp", "-qp_i", value, "-qp_p", value];
    default:
      return encoder satisfies never;
  }
}

import type { RenderGraph } from "./graph.plan.ts";
import type { RenderPlan } from "./plan.types.ts";
import { type Rate, rateText } from "./time.plan.ts";

export interface CommandTarget {
  /** Local file of each source. */
  files: ReadonlyMap<string, string>;
  /** File that holds the filter graph; one argument could be too small for it. */
  graphFile: string;
  outFile: string;
  /** Release of FFmpeg; absent for a build from source. */
  release?: { major: number; minor: number };
  /** GPU encoder of the machine. */
  gpuEncoder?: string;
}

const x264 = {
  draft: ["-preset", "ultrafast", "-crf", "28"],
  standard: ["-preset", "veryfast", "-crf", "20"],
  high: ["-preset", "medium", "-crf", "17"],
} as const;
/** Quality of GPU encoders on their own scales. */
const gpuQuality = { draft: 32, standard: 24, high: 19 } as const;

function gpuArgs(encoder: string, quality: RenderPlan["quality"]): string[] {
  const level = String(gpuQuality[quality]);
  switch (encoder) {
    case "h264_nvenc":
      return [
        "-preset",
        quality === "draft" ? "p1" : "p5",
        "-rc",
        "vbr",
        "-cq",
        level,
        "-b:v",
        "0",
      ];
    case "h264_videotoolbox":
      return ["-q:v", String(100 - 2 * gpuQuality[quality])];
    case "h264_qsv":
      return ["-global_quality", level];
    default:
      return ["-rc", "cqp", "-qp_i", level, "-qp_p", level];
  }
}

const framesPerKey = ({ num, den }: Rate) => Math.max(1, Math.round((2 * num) / den));

function pictureArgs(plan: RenderPlan, gpuEncoder: string | undefined): string[] {
  return [
    "-c:v",
    gpuEncoder ?? "libx264",
    ...(gpuEncoder ? gpuArgs(gpuEncoder, plan.quality) : x264[plan.quality]),
    "-pix_fmt",
    "yuv420p",
    "-g",
    String(framesPerKey(plan.rate)),
    ...["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"],
    ...["-color_range", "tv"],
    // No -frames:v: FFmpeg 5.1 would end the sound with it. The graph gives exactly as many frames.
    ...["-r", rateText(plan.rate), "-fps_mode", "cfr"],
  ];
}

/** Inputs beyond which each decoder gets one thread: the threads of hundreds would cost more than they bring. */
const inputsWithThreads = 12;

/** The one FFmpeg command that renders a plan, without the program's name and general options. */
export function planCommand(plan: RenderPlan, graph: RenderGraph, target: CommandTarget): string[] {
  const single = graph.inputs.length > inputsWithThreads ? ["-threads", "1"] : [];
  const inputs = graph.inputs.flatMap(({ src, args }) => [
    ...single,
    ...args,
    "-i",
    target.files.get(src) ?? src,
  ]);
  const script =
    target.release && target.release.major < 7 ? "-filter_complex_script" : "-/filter_complex";
  const sound = graph.sound
    ? ["-map", `[${graph.sound}]`, "-c:a", "aac", "-b:a", "160k", "-ar", String(plan.sampleRate)]
    : [];
  return [
    ...inputs,
    ...[script, target.graphFile],
    ...["-map", `[${graph.picture}]`],
    ...pictureArgs(plan, target.gpuEncoder),
    ...sound,
    ...["-map_metadata", "-1", "-map_chapters", "-1"],
    ...["-movflags", "+faststart", "-f", plan.format],
    target.outFile,
  ];
}

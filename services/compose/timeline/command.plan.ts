import type { FfmpegCommand } from "../media/ffmpeg-command.ts";
import { gpuSideMax, type H264Encoder, h264Args } from "../media/h264.policy.ts";
import type { RenderGraph } from "./graph.plan.ts";
import { decoderThreads } from "./memory.policy.ts";
import type { RenderPlan } from "./plan.types.ts";
import { type Rate, rateText } from "./time.plan.ts";

export interface CommandTarget {
  /** Local file of each source. */
  files: ReadonlyMap<string, string>;
  output: string;
  /** Best encoder of the machine. */
  encoder: H264Encoder;
}

const framesPerKey = ({ num, den }: Rate) => Math.max(1, Math.round((2 * num) / den));

/** GPU encoders have limits that the software encoder does not have. */
const encoderFor = (plan: RenderPlan, best: H264Encoder): H264Encoder =>
  Math.max(plan.width, plan.height) > gpuSideMax || Math.min(plan.width, plan.height) < 160
    ? "libx264"
    : best;

const pictureArgs = (plan: RenderPlan, encoder: H264Encoder): string[] => [
  ...h264Args(encoderFor(plan, encoder), plan.quality),
  ...["-pix_fmt", "yuv420p", "-g", String(framesPerKey(plan.rate))],
  ...["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"],
  ...["-color_range", "tv"],
  // No -frames:v: FFmpeg 5.1 would end the sound with it. The graph gives exactly as many frames.
  ...["-r", rateText(plan.rate), "-fps_mode", "cfr"],
];

/** The one FFmpeg command that renders a plan. */
export function planCommand(
  plan: RenderPlan,
  graph: RenderGraph,
  target: CommandTarget,
): FfmpegCommand {
  const threads = decoderThreads(graph.inputs.length);
  const sound = graph.sound
    ? ["-map", `[${graph.sound}]`, "-c:a", "aac", "-b:a", "160k", "-ar", String(plan.sampleRate)]
    : [];
  return {
    inputs: graph.inputs.map(({ src, args }) => ({
      args: [...(threads ? ["-threads", String(threads)] : []), ...args],
      file: target.files.get(src) ?? src,
    })),
    filterGraph: graph.filters,
    outputArgs: [
      ...["-map", `[${graph.picture}]`],
      ...pictureArgs(plan, target.encoder),
      ...sound,
      ...["-map_metadata", "-1", "-map_chapters", "-1"],
      ...["-movflags", "+faststart", "-f", plan.format],
    ],
    output: target.output,
  };
}

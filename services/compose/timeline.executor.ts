import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Executor, ExecutorTools } from "./executor.ts";
import { findFfmpeg } from "./media/ffmpeg.ts";
import { findGpuEncoder } from "./media/gpu-encoder.ts";
import { bringAll, localise } from "./media/localise.ts";
import { runFfmpeg } from "./media/run-ffmpeg.ts";
import { assScript } from "./timeline/ass.plan.ts";
import { planCommand } from "./timeline/command.plan.ts";
import { TimelineLimits } from "./timeline/config.ts";
import { planGraph } from "./timeline/graph.plan.ts";
import type { Facts, RenderPlan } from "./timeline/plan.types.ts";
import { timelineSources } from "./timeline/sources.plan.ts";
import { parseSrt } from "./timeline/srt.plan.ts";
import { rateText } from "./timeline/time.plan.ts";
import { planTimeline, type TrackCues } from "./timeline/timeline.plan.ts";
import { type Cue, type Timeline, TimelineRequest } from "./timeline/timeline.schema.ts";
import { timelineError } from "./timeline/timeline-error.ts";

/** Shares of the whole progress by stage. */
const stages = { fetch: 0.08, render: 0.9, store: 1 } as const;

interface Brought {
  facts: Facts;
  files: ReadonlyMap<string, string>;
  cues: TrackCues;
}

async function readSrt(src: string, path: string, at: number, tools: ExecutorTools) {
  const file = await localise(src, tools, { clip: path, name: `subtitles-${at}` });
  if ((await stat(file)).size > TimelineLimits.srtLength)
    throw timelineError(`${path}.src`, "is too large for an SRT file");
  return readFile(file, "utf8");
}

/** Subtitles of every track, wherever they are written. */
async function bringCues(timeline: Timeline, tools: ExecutorTools): Promise<TrackCues> {
  const cues = new Map<number, readonly Cue[]>();
  for (const [at, track] of timeline.tracks.entries()) {
    if (track.type !== "subtitle") continue;
    const path = `tracks[${at}]`;
    const { cues: given, srt, src } = track;
    if (given) cues.set(at, given);
    else {
      const text = srt ?? (await readSrt(src ?? "", path, at, tools));
      cues.set(
        at,
        parseSrt(text, `${path}.${srt === undefined ? "src" : "srt"}`, TimelineLimits.cues),
      );
    }
  }
  return cues;
}

async function bringIn(timeline: Timeline, tools: ExecutorTools): Promise<Brought> {
  const { media } = timelineSources(timeline);
  const local = await bringAll(media, tools, {
    onDone: (fraction) => tools.progress(fraction * stages.fetch, "fetch"),
  });
  const sources = media.map(({ src }, index) => ({ src, local: local[index]! }));
  return {
    facts: new Map(sources.map(({ src, local: { facts } }) => [src, facts])),
    files: new Map(sources.map(({ src, local: { file } }) => [src, file])),
    cues: await bringCues(timeline, tools),
  };
}

/** Renders the plan with one FFmpeg process. */
async function render(plan: RenderPlan, brought: Brought, tools: ExecutorTools): Promise<string> {
  const ffmpeg = await findFfmpeg(tools.config);
  const at = (name: string) => join(tools.workDir, name);
  const graph = planGraph(plan, brought.facts, {
    assFile: at("texts.ass"),
    fontsDir: ffmpeg.fontsDir,
  });
  await writeFile(at("texts.ass"), assScript(plan));
  await writeFile(at("graph.txt"), graph.filters);
  const outFile = at(`output.${plan.format}`);
  const args = planCommand(plan, graph, {
    files: brought.files,
    graphFile: at("graph.txt"),
    outFile,
    release: ffmpeg.release,
    gpuEncoder: await findGpuEncoder(ffmpeg),
  });
  await runFfmpeg(args, tools, {
    totalFrames: plan.frames,
    onProgress: ({ fraction }) =>
      tools.progress(stages.fetch + fraction * (stages.render - stages.fetch), "render"),
  });
  return outFile;
}

const contentTypes = { mp4: "video/mp4", mov: "video/quicktime" } as const;

/** Composes a timeline into one video (operations document, composition bridge). */
export const timelineExecutor: Executor<typeof TimelineRequest> = {
  kind: "timeline",
  payload: TimelineRequest,
  async execute({ timeline, output }, tools) {
    tools.progress(0, "fetch");
    const brought = await bringIn(timeline, tools);
    const plan = planTimeline(timeline, output, brought.facts, brought.cues);
    for (const note of plan.notes) tools.log("info", note);
    const file = await render(plan, brought, tools);
    tools.progress(stages.render, "store");
    const media = await tools.upload(file, {
      name: `output.${plan.format}`,
      contentType: contentTypes[plan.format],
      role: "media",
    });
    return {
      outputs: [media],
      info: {
        frames: plan.frames,
        fps: rateText(plan.rate),
        width: plan.width,
        height: plan.height,
        durationMs: Math.round((plan.frames * plan.rate.den * 1000) / plan.rate.num),
        audio: plan.audio !== undefined,
        notes: plan.notes.slice(0, 50),
      },
    };
  },
};

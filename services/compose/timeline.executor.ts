import { readFile, stat, writeFile } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";
import type { Executor, ExecutorTools } from "./executor.ts";
import { findFfmpeg } from "./media/ffmpeg.ts";
import { runByImplementation } from "./media/fluent-adapter.ts";
import { findGpuEncoder } from "./media/gpu-encoder.ts";
import { bringAll, localise } from "./media/localise.ts";
import { type ExpectedRender, type RenderFacts, verifyRender } from "./media/verify-render.ts";
import { assScript } from "./timeline/ass.plan.ts";
import { planCommand } from "./timeline/command.plan.ts";
import { TimelineLimits } from "./timeline/config.ts";
import { planGraph } from "./timeline/graph.plan.ts";
import { checkMemory } from "./timeline/memory.policy.ts";
import type { Facts, RenderPlan } from "./timeline/plan.types.ts";
import { timelineSources } from "./timeline/sources.plan.ts";
import { parseSrt } from "./timeline/srt.plan.ts";
import { rateText } from "./timeline/time.plan.ts";
import { planTimeline, type TrackCues } from "./timeline/timeline.plan.ts";
import { type Cue, type Timeline, TimelineRequest } from "./timeline/timeline.schema.ts";
import { timelineError } from "./timeline/timeline-error.ts";

/** Shares of the whole progress by stage. */
const stages = { fetch: 0.08, render: 0.94, store: 0.98 } as const;
/** Part of the machine's memory that all renders together may fill with sources. */
const memoryShare = 0.6;
/** Remarks on a timeline that go into the job's log. */
const notesMax = 50;

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

/** Renders the plan with one FFmpeg process, and checks what came out. */
async function render(
  plan: RenderPlan,
  impl: string,
  brought: Brought,
  tools: ExecutorTools,
): Promise<Rendered> {
  const ffmpeg = await findFfmpeg(tools.config);
  const assFile = join(tools.workDir, "texts.ass");
  if (plan.texts.length > 0) await writeFile(assFile, assScript(plan));
  const graph = planGraph(plan, brought.facts, { assFile, fontsDir: ffmpeg.fontsDir });
  const command = planCommand(plan, graph, {
    files: brought.files,
    output: join(tools.workDir, `output.${plan.format}`),
    encoder: (await findGpuEncoder(ffmpeg)) ?? "libx264",
  });
  tools.progress(stages.fetch, "render");
  const used = await runByImplementation(impl, command, tools, {
    totalFrames: plan.frames,
    onProgress: ({ fraction }) =>
      tools.progress(stages.fetch + fraction * (stages.render - stages.fetch), "render"),
  });
  tools.progress(stages.render, "check");
  const facts = await verifyRender(command.output, expectedOf(plan), tools);
  return { file: command.output, facts, impl: used };
}

interface Rendered {
  file: string;
  facts: RenderFacts;
  impl: string;
}

const expectedOf = (plan: RenderPlan): ExpectedRender => ({
  frames: plan.frames,
  width: plan.width,
  height: plan.height,
  fps: `${plan.rate.num}/${plan.rate.den}`,
  hasAudio: plan.audio !== undefined,
  durationMs: Math.round((plan.frames * plan.rate.den * 1000) / plan.rate.num),
});

const contentTypes = { mp4: "video/mp4", mov: "video/quicktime" } as const;

/** Composes a timeline into one video (operations document, composition bridge). */
export const timelineExecutor: Executor<typeof TimelineRequest> = {
  kind: "timeline",
  payload: TimelineRequest,
  async execute({ timeline, output, options }, tools) {
    tools.progress(0, "fetch");
    const brought = await bringIn(timeline, tools);
    const plan = planTimeline(timeline, output, brought.facts, brought.cues);
    checkMemory(plan, brought.facts, (totalmem() * memoryShare) / tools.config.RENDER_SLOTS);
    for (const note of plan.notes.slice(0, notesMax)) tools.log("info", note);
    const { file, facts, impl } = await render(plan, options.impl, brought, tools);
    tools.progress(stages.store, "store");
    const media = await tools.upload(file, {
      name: `output.${plan.format}`,
      contentType: contentTypes[plan.format],
      role: "media",
    });
    return { outputs: [media], info: { ...facts, fps: rateText(plan.rate), impl } };
  },
};

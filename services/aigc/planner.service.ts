import type { z } from "zod";
import { restoreUrls } from "../../lib/restore-urls.ts";
import { type ActionContext, implementService } from "../../lib/service.ts";
import { plannerContract, type StoryboardRequest } from "./planner.contract.ts";
import { type PlannedScene, planScenes } from "./storyboard.plan.ts";
import { assignMaterials, timelineOf } from "./storyboard-timeline.plan.ts";

type Params = z.output<typeof StoryboardRequest>;
type Spoken = ReadonlyMap<string, { key: string; bucket: string; duration_ms: number }>;

const sizes = {
  vertical: { width: 1080, height: 1920 },
  horizontal: { width: 1920, height: 1080 },
  square: { width: 1080, height: 1080 },
} as const;

/** Silence after each spoken scene. */
const breathMs = 350;

async function speak(
  { call, params }: ActionContext<Params>,
  scenes: readonly PlannedScene[],
): Promise<Spoken> {
  if (!params.narrate) return new Map();
  const { lines } = await call("aigc.dubbing.batch", {
    lines: scenes.map(({ id, text }) => ({ id, text })),
    voice: params.voice,
  });
  return new Map(lines.map((line) => [line.id, line]));
}

/** How the scenes use the materials, said where it may not be what was meant. */
function materialNotes(scenes: number, materials: number): string[] {
  if (materials === 0 || materials === scenes) return [];
  return materials < scenes
    ? [
        `There are ${scenes} scenes and ${materials} materials: they are shown again from the start.`,
      ]
    : [`There are ${materials} materials for ${scenes} scenes: some scenes show several.`];
}

async function generate(ctx: ActionContext<Params>) {
  const params = restoreUrls(ctx.params);
  const { script, idea, title: wanted, language: asked, duration_seconds, music } = params;
  const plan = planScenes({
    script,
    idea,
    title: wanted,
    language: asked,
    targetMs: duration_seconds === undefined ? undefined : Math.round(duration_seconds * 1000),
  });
  const spoken = await speak(ctx, plan.scenes);
  const materials = assignMaterials(plan.scenes.length, params.materials);
  const scenes = plan.scenes.map((scene, index) => {
    const line = spoken.get(scene.id);
    return {
      ...scene,
      materials: materials[index]!,
      audio: line && `oss://${line.bucket}/${line.key}`,
      durationMs: line ? Math.ceil((line.duration_ms + breathMs) / 100) * 100 : scene.durationMs,
    };
  });
  const { title, language, source } = plan;
  const record = await ctx.call("aigc.storyboard.create", {
    title,
    idea,
    script: script ?? plan.scenes.map(({ text }) => text).join("\n"),
    language,
    status: "ready",
    scenes: scenes.map(({ id, text, visual, durationMs, materials: [src], audio }) => ({
      id,
      text,
      visual,
      durationMs,
      src,
      audio,
      caption: text.slice(0, 500),
    })),
  });
  const request = timelineOf(scenes, {
    title,
    music,
    frame: { ...sizes[params.format], fps: 30, quality: params.quality },
  });
  let startMs = 0;
  const answers = scenes.map(({ durationMs, ...scene }) => {
    const answer = { ...scene, start_ms: startMs, duration_ms: durationMs };
    startMs += durationMs;
    return answer;
  });
  return {
    storyboard_id: record.id,
    title,
    language,
    source,
    total_ms: startMs,
    scenes: answers,
    lines: scenes.map(({ id, text }) => ({ id, text })),
    request: request as unknown as Record<string, unknown>,
    notes: [...plan.notes, ...materialNotes(scenes.length, params.materials.length)],
  };
}

export const plannerService = implementService(plannerContract, {
  handlers: { storyboard: generate },
});

import { aigcLimits } from "./config.ts";
import { fitDurations, languageOfText, partsOf, sentencesOf, speakingMs } from "./script.plan.ts";

const limits = aigcLimits.storyboard;
/** Faster than this, a text can no longer be followed. */
const fastest = 1.4;

export interface PlannedScene {
  id: string;
  role: "hook" | "point" | "call-to-action" | "scene";
  text: string;
  visual: string;
  durationMs: number;
}

export interface ScenePlan {
  title: string;
  language: "zh" | "en";
  /** Where the words come from: the caller's script, or a template, since nobody wrote them. */
  source: "script" | "template";
  scenes: PlannedScene[];
  notes: string[];
}

const shots = {
  zh: ["特写", "中景", "全景", "细节", "跟拍"],
  en: ["Close-up", "Medium shot", "Wide shot", "Detail", "Moving shot"],
} as const;

const shorten = (text: string, length: number) =>
  text.length > length ? `${text.slice(0, length - 1)}…` : text;

const visualOf = (text: string, index: number, language: "zh" | "en") =>
  `${shots[language][index % shots[language].length]}${language === "zh" ? "：" : ": "}${shorten(text, 120)}`;

/** Topic and points of an idea such as "Night noodles: hand-pulled, old broth, the owner's story". */
export function readIdea(idea: string): { topic: string; points: string[] } {
  const [head = "", ...rest] = idea.trim().split(/[:：\n]/);
  const points = rest
    .join(" ")
    .split(/[,，、;；]|\s+and\s+/)
    .map((point) => point.trim().replace(/[.。!！?？]+$/, ""))
    .filter(Boolean);
  return { topic: shorten(head.trim().replace(/[.。!！?？]+$/, ""), 60), points };
}

const generalPoints = {
  zh: [
    "它为什么值得关注",
    "最打动人的细节",
    "和别人不一样的地方",
    "大家最常问的问题",
    "怎样马上体验",
  ],
  en: [
    "why it deserves your attention",
    "the detail that people love most",
    "what makes it different",
    "the question that everybody asks",
    "how to try it today",
  ],
} as const;
const ordinals = {
  zh: ["第一", "第二", "第三", "第四", "第五", "第六", "第七", "第八"],
  en: ["First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth"],
} as const;
const numbers = {
  zh: ["零", "一", "两", "三", "四", "五", "六", "七", "八"],
  en: ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"],
} as const;

type Draft = Pick<PlannedScene, "role" | "text" | "visual">;

/** Hook, points and call to action. The words are a template's: a structure to be rewritten, not a text. */
function draftIdea(idea: string, language: "zh" | "en", targetMs: number): Draft[] {
  const { topic, points: given } = readIdea(idea);
  const wanted = Math.min(5, Math.max(2, Math.round(targetMs / 1000 / 8) - 1));
  const points = given.length > 0 ? given.slice(0, 8) : generalPoints[language].slice(0, wanted);
  const n = numbers[language][points.length];
  const zh = language === "zh";
  const point = (text: string, index: number): Draft => ({
    role: "point",
    text: zh ? `${ordinals.zh[index]}，${text}。` : `${ordinals.en[index]}, ${text}.`,
    visual: visualOf(zh ? `${topic}，${text}` : `${topic}, ${text}`, index, language),
  });
  return [
    {
      role: "hook",
      text: zh ? `${topic}，${n}件事你值得知道。` : `${topic}: ${n} things worth knowing.`,
      visual: visualOf(
        zh ? `${topic}最抓眼球的一幕` : `the most striking moment of ${topic}`,
        0,
        language,
      ),
    },
    ...points.map(point),
    {
      role: "call-to-action",
      text: zh ? "喜欢就点个关注，我们下期见。" : "Follow us for more, and see you next time.",
      visual: visualOf(zh ? `${topic}的全貌` : `all of ${topic} once more`, 2, language),
    },
  ];
}

function draftScript(script: string, language: "zh" | "en"): Draft[] {
  return sentencesOf(script)
    .flatMap((sentence) => partsOf(sentence, limits.sceneMsMax))
    .map((text, index) => ({ role: "scene", text, visual: visualOf(text, index, language) }));
}

/** More sentences than scenes: neighbours share one, the shortest neighbours first. */
function mergeDrafts(drafts: Draft[], max: number): Draft[] {
  const merged = [...drafts];
  while (merged.length > max) {
    let at = 0;
    for (let index = 1; index < merged.length - 1; index += 1) {
      const length = (i: number) => merged[i]!.text.length + merged[i + 1]!.text.length;
      if (length(index) < length(at)) at = index;
    }
    const [left, right] = [merged[at]!, merged[at + 1]!];
    merged.splice(at, 2, { ...left, text: `${left.text} ${right.text}` });
  }
  return merged;
}

export interface PlanRequest {
  idea?: string;
  script?: string;
  title?: string;
  language?: "zh" | "en";
  targetMs?: number;
}

/**
 * Scenes of a script, or of an idea. Each lasts as long as its words take to be said; with a target the whole
 * is stretched or squeezed to it as far as it can still be followed. Nothing to say gives no scenes.
 */
export function planScenes({ idea, script, title, language, targetMs }: PlanRequest): ScenePlan {
  const words = script ?? idea ?? "";
  const spoken = language ?? languageOfText(words);
  const drafts =
    script === undefined
      ? draftIdea(words, spoken, targetMs ?? 30_000)
      : mergeDrafts(draftScript(script, spoken), limits.scenesMax);
  const natural = drafts.map(({ text }) => Math.max(limits.sceneMsMin, speakingMs(text)));
  const durations =
    targetMs === undefined || drafts.length === 0
      ? natural.map((ms) => Math.ceil(ms / 100) * 100)
      : fitDurations(natural, targetMs, { shortestMs: limits.sceneMsMin, fastest });
  const total = durations.reduce((sum, ms) => sum + ms, 0);
  const notes: string[] = [];
  if (script === undefined)
    notes.push(
      "No script was given: the words come from a template. Rewrite the scenes' text before you publish.",
    );
  if (targetMs !== undefined && Math.abs(total - targetMs) > 500)
    notes.push(
      `The words need ${(total / 1000).toFixed(1)} s even when spoken fast; ${(targetMs / 1000).toFixed(1)} s were asked for. Shorten the script to get there.`,
    );
  const headline = script === undefined ? readIdea(words).topic : (drafts[0]?.text ?? "");
  return {
    title: title ?? shorten(headline, 60),
    language: spoken,
    source: script === undefined ? "template" : "script",
    scenes: drafts.map((draft, index) => ({
      id: `scene-${index + 1}`,
      ...draft,
      durationMs: durations[index]!,
    })),
    notes,
  };
}

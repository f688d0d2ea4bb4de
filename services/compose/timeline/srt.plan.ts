import type { Cue } from "./timeline.schema.ts";
import { timelineError } from "./timeline-error.ts";

const timing =
  /^\s*(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})\s*-->\s*(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})/;

const seconds = (parts: readonly (string | undefined)[]): number => {
  const [hours = "0", minutes = "0", whole = "0", fraction = "0"] = parts.map(
    (part) => part ?? "0",
  );
  const milliseconds = Number(fraction.padEnd(3, "0"));
  return (
    (Number(hours) * 3_600_000 + Number(minutes) * 60_000 + Number(whole) * 1000 + milliseconds) /
    1000
  );
};

/** Marks of players that are no text: <i>, <font ...>, {\an8}. */
const withoutMarks = (text: string) =>
  text.replace(/<\/?(?:b|i|u|s|font)\b[^>]*>/gi, "").replace(/\{\\[^}]*\}/g, "");

/**
 * Cues of an SRT file (WebVTT's times are understood too). Numbers are not needed, empty cues are left out.
 * @throws AppError TIMELINE_INVALID naming the line.
 */
export function parseSrt(text: string, path: string, cuesMax: number): Cue[] {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\r|\n/);
  const cues: Cue[] = [];
  for (let at = 0; at < lines.length; at++) {
    const match = timing.exec(lines[at] ?? "");
    if (!match) {
      if ((lines[at] ?? "").includes("-->"))
        throw timelineError(
          path,
          `line ${at + 1} of the SRT is no time such as 00:00:01,000 --> 00:00:02,500`,
        );
      continue;
    }
    const start = seconds(match.slice(1, 5));
    const end = seconds(match.slice(5, 9));
    if (end <= start)
      throw timelineError(path, `line ${at + 1} of the SRT: the end must be after the start`);
    const words: string[] = [];
    while (at + 1 < lines.length && lines[at + 1]?.trim() !== "") words.push(lines[++at] ?? "");
    const shown = withoutMarks(words.join("\n")).trim();
    if (shown) cues.push({ start, end, text: shown });
    if (cues.length > cuesMax)
      throw timelineError(path, `the SRT has more than ${cuesMax} subtitles`);
  }
  if (cues.length === 0) throw timelineError(path, "the SRT has no subtitle");
  return cues;
}

import type { RenderPlan, ResolvedStyle, TextEvent } from "./plan.types.ts";
import { lineHeightEm } from "./text.plan.ts";
import { frameUs, type Rate } from "./time.plan.ts";
import { anchors } from "./timeline.schema.ts";

/** Numbers of the keypad, as ASS counts alignments. */
const keypad = Object.fromEntries(
  anchors.map((anchor, index) => [anchor, [7, 8, 9, 4, 5, 6, 1, 2, 3][index]]),
);

/** #RRGGBBAA to &HAABBGGRR, where ASS counts transparency. */
function assColour(colour: string): string {
  const [, red, green, blue, alpha = "FF"] =
    /^#(..)(..)(..)(..)?$/.exec(colour.toUpperCase()) ?? [];
  const transparency = (255 - Number.parseInt(alpha, 16)).toString(16).padStart(2, "0");
  return `&H${transparency}${blue}${green}${red}`.toUpperCase();
}

/**
 * Time of a frame boundary in hundredths of a second, a little before the frame: the renderer shows an
 * event from its start on and up to its end, so a boundary halfway between two frames is exact in both.
 */
function assTime(frame: number, rate: Rate): string {
  const middleUs = Math.max(0, frameUs(frame, rate) - (500_000 * rate.den) / rate.num);
  const hundredths = Math.round(middleUs / 10_000);
  const part = (n: number) => String(n).padStart(2, "0");
  const seconds = Math.floor(hundredths / 100);
  return `${Math.floor(seconds / 3600)}:${part(Math.floor(seconds / 60) % 60)}:${part(seconds % 60)}.${part(hundredths % 100)}`;
}

/**
 * Text that ASS shows as it is: a brace would open a block of commands, and a backslash before n, N or h
 * is a command too; a word joiner, which is invisible, takes its meaning away.
 */
export const escapeAss = (text: string): string =>
  text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
    .replace(/[\u0000-\u001F\u007F\u2028\u2029]/g, " ")
    .replace(/\\/g, "\\\u2060")
    .replace(/\{/g, "\\{")
    .replace(/\}/g, "\\}");

const number = (value: number) => String(Math.round(value * 100) / 100);

function styleLine(name: string, style: ResolvedStyle): string {
  return `Style: ${[
    name,
    style.font,
    number(style.em * lineHeightEm),
    assColour(style.colour),
    assColour(style.colour),
    assColour(style.outlineColour),
    assColour(style.box ?? style.shadowColour),
    style.bold ? -1 : 0,
    style.italic ? -1 : 0,
    0,
    0,
    100,
    100,
    number(style.spacing),
    0,
    // 4 is one box behind the whole text; 3, one for each line, doubles where they meet.
    style.box ? 4 : 1,
    number(style.outline),
    number(style.shadow),
    2,
    0,
    0,
    0,
    1,
  ].join(",")}`;
}

/** Fades no longer than a third of the event. */
function animation(event: TextEvent, x: string, y: string, rate: Rate): string {
  const lengthMs = ((event.endFrame - event.startFrame) * rate.den * 1000) / rate.num;
  const fadeMs = Math.round(Math.min(350, lengthMs / 3));
  if (event.animation === "none") return `\\pos(${x},${y})`;
  const fade = `\\fad(${fadeMs},${fadeMs})`;
  if (event.animation === "fade") return `\\pos(${x},${y})${fade}`;
  const from = number(event.y + event.style.em * 0.6);
  return `\\move(${x},${from},${x},${y},0,${fadeMs})${fade}`;
}

/** All texts as one ASS script in pixels of the canvas; later tracks lie above. */
export function assScript(plan: RenderPlan): string {
  const names = new Map<string, string>();
  const styles: string[] = [];
  const events = plan.texts.map((event, layer) => {
    const key = JSON.stringify(event.style);
    let name = names.get(key);
    if (!name) {
      name = `S${names.size}`;
      names.set(key, name);
      styles.push(styleLine(name, event.style));
    }
    const x = number(event.x);
    const y = number(event.y);
    const place = `{\\an${keypad[event.anchor]}\\q2${animation(event, x, y, plan.rate)}}`;
    const text = event.lines.map(escapeAss).join("\\N");
    return `Dialogue: ${layer},${assTime(event.startFrame, plan.rate)},${assTime(event.endFrame, plan.rate)},${name},,0,0,0,,${place}${text}`;
  });
  return [
    "[Script Info]",
    "ScriptType: v4.00+",
    `PlayResX: ${plan.width}`,
    `PlayResY: ${plan.height}`,
    "WrapStyle: 2",
    "ScaledBorderAndShadow: yes",
    "YCbCr Matrix: None",
    "",
    "[V4+ Styles]",
    "Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding",
    ...styles,
    "",
    "[Events]",
    "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text",
    ...events,
    "",
  ].join("\n");
}

/** Widths of letters in em, for Noto Sans SC; a little generous, so that lines stay inside. */
function charWidth(char: string): number {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x20 || (code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200f))
    return 0;
  if (code >= 0x1100 && isWide(code)) return 1;
  if (char === " ") return 0.23;
  if (/[ilj.,:;'!|]/.test(char)) return 0.3;
  if (/[frt()[\]{}\-"/\\I]/.test(char)) return 0.4;
  if (/[mwMW@%]/.test(char)) return 0.88;
  if (/[A-Z&#]/.test(char)) return 0.66;
  return 0.58;
}

/** Chinese, Japanese and Korean letters, full-width forms and emoji: one em, breakable on both sides. */
const isWide = (code: number): boolean =>
  (code >= 0x1100 && code <= 0x115f) ||
  (code >= 0x2e80 && code <= 0xa4cf) ||
  (code >= 0xac00 && code <= 0xd7a3) ||
  (code >= 0xf900 && code <= 0xfaff) ||
  (code >= 0xfe30 && code <= 0xfe4f) ||
  (code >= 0xff00 && code <= 0xff60) ||
  (code >= 0xffe0 && code <= 0xffe6) ||
  (code >= 0x1f300 && code <= 0x1faff) ||
  (code >= 0x20000 && code <= 0x3fffd);

/** No line begins with these, none ends with those. */
const neverFirst = /^[，。！？、；：）】》」』〉”’…·,.!?;:)\]}%～—]/u;
const neverLast = /[（【《「『〈“‘([{]$/u;

interface Unit {
  text: string;
  width: number;
  /** A space lies before it, which a break replaces. */
  spaced: boolean;
}

export const textWidth = (text: string): number =>
  Array.from(text).reduce((sum, char) => sum + charWidth(char), 0);

const unit = (text: string, spaced: boolean): Unit => ({ text, width: textWidth(text), spaced });

/** The smallest parts that stay together: words of Latin letters, single wide letters with their marks. */
function unitsOf(line: string): Unit[] {
  const units: Unit[] = [];
  let spaced = false;
  let word = "";
  const push = (text: string) => {
    const before = units.at(-1);
    if (before && !spaced && (neverFirst.test(text) || neverLast.test(before.text)))
      units[units.length - 1] = unit(before.text + text, before.spaced);
    else units.push(unit(text, spaced));
    spaced = false;
  };
  const endWord = () => {
    if (word) push(word);
    word = "";
  };
  for (const char of line) {
    if (/\s/.test(char)) {
      endWord();
      spaced = true;
    } else if (isWide(char.codePointAt(0) ?? 0) || /[，。！？、；：“”‘’…—·]/u.test(char)) {
      endWord();
      push(char);
    } else word += char;
  }
  endWord();
  return units;
}

/** A word wider than a whole line is cut; nothing else would keep it in the picture. */
function splitWide(units: readonly Unit[], width: number): Unit[] {
  return units.flatMap((whole) => {
    if (whole.width <= width) return [whole];
    const parts: Unit[] = [];
    let part = "";
    for (const char of whole.text) {
      if (part && textWidth(part + char) > width) {
        parts.push(unit(part, parts.length === 0 && whole.spaced));
        part = "";
      }
      part += char;
    }
    parts.push(unit(part, parts.length === 0 && whole.spaced));
    return parts;
  });
}

const spaceWidth = 0.23;

function fill(units: readonly Unit[], width: number): string[] {
  const lines: string[] = [];
  let text = "";
  let used = 0;
  for (const next of units) {
    const gap = next.spaced && text ? spaceWidth : 0;
    if (text && used + gap + next.width > width + 1e-9) {
      lines.push(text);
      text = "";
      used = 0;
    }
    text += text && next.spaced ? ` ${next.text}` : next.text;
    used += (used > 0 ? gap : 0) + next.width;
  }
  if (text) lines.push(text);
  return lines;
}

/**
 * Breaks text into lines of at most `widthEm`. Wide letters may part anywhere, others at spaces; lines of
 * one paragraph get about the same length, which reads better than a full line over a single word.
 */
export function breakLines(text: string, widthEm: number): string[] {
  return text.split(/\r\n|\r|\n/).flatMap((paragraph) => {
    const units = splitWide(unitsOf(paragraph), widthEm);
    const greedy = fill(units, widthEm);
    if (greedy.length < 2) return greedy;
    let low = 0;
    let high = widthEm;
    for (let round = 0; round < 12; round++) {
      const middle = (low + high) / 2;
      if (fill(units, middle).length <= greedy.length) high = middle;
      else low = middle;
    }
    return fill(units, high);
  });
}

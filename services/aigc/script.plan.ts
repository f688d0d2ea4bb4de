/** Reading speed of a calm voice-over: characters of Chinese, words of English in a second. */
const charactersPerSecond = 4.5;
const wordsPerSecond = 2.5;
/** A breath after each sentence. */
const pauseMs = 300;

const han = /[\u3400-\u9fff\uf900-\ufaff]/g;
const words =
  /[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{N}]+(?:['’.,-][\p{L}\p{N}]+)*/gu;
const abbreviation = /(?:^|\s)(?:Mr|Mrs|Ms|Dr|Prof|St|No|vs|etc|e\.g|i\.e|approx)\.$/;
const spoken = /[\p{L}\p{N}]/u;

const matches = (text: string, pattern: RegExp) => text.match(pattern)?.length ?? 0;

/** zh where Chinese characters carry the text, else en. */
export const languageOfText = (text: string): "zh" | "en" =>
  matches(text, han) * 2 >= matches(text, words) ? (matches(text, han) > 0 ? "zh" : "en") : "en";

/** How long it takes to say a text, in milliseconds. */
export const speakingMs = (text: string): number =>
  Math.round(
    (matches(text, han) / charactersPerSecond + matches(text, words) / wordsPerSecond) * 1000,
  ) + pauseMs;

/** Sentences in the order of the script, Chinese and English punctuation alike; a line end ends a sentence. */
export function sentencesOf(script: string): string[] {
  const segmenter = new Intl.Segmenter(languageOfText(script), { granularity: "sentence" });
  const sentences: string[] = [];
  for (const line of script.split(/\r?\n+/)) {
    let open = "";
    for (const { segment } of segmenter.segment(line)) {
      open += segment;
      if (abbreviation.test(open.trimEnd())) continue;
      sentences.push(open.trim());
      open = "";
    }
    sentences.push(open.trim());
  }
  return sentences.filter((sentence) => spoken.test(sentence));
}

/** Words in groups that can each be said in the time; for text that has no punctuation at all. */
function chunksOf(text: string, longestMs: number): string[] {
  if (speakingMs(text) <= longestMs) return [text];
  const chunks: string[] = [];
  let open = "";
  let openMs = 0;
  for (const { segment } of new Intl.Segmenter(languageOfText(text), {
    granularity: "word",
  }).segment(text)) {
    const ms = speakingMs(segment) - pauseMs;
    // Text that counts as nothing to say is bounded too.
    if (open !== "" && (openMs + ms + pauseMs > longestMs || open.length + segment.length > 500)) {
      chunks.push(open);
      open = "";
      openMs = 0;
    }
    open += segment;
    openMs += ms;
  }
  return [...chunks, open];
}

/** A sentence that is too long for one scene, cut at commas, and between words where there are none. */
export function partsOf(sentence: string, longestMs: number): string[] {
  if (speakingMs(sentence) <= longestMs && sentence.length <= 500) return [sentence];
  const pieces = (sentence.match(/[^，,；;：:、—]+[，,；;：:、—]*\s*/g) ?? [sentence]).flatMap(
    (piece) => chunksOf(piece, longestMs),
  );
  const parts: string[] = [];
  for (const piece of pieces) {
    const last = parts.at(-1);
    if (last !== undefined && last.length < 250 && speakingMs(last + piece) <= longestMs)
      parts[parts.length - 1] = last + piece;
    else parts.push(piece);
  }
  return parts.map((part) => part.trim()).filter((part) => spoken.test(part));
}

/**
 * Durations stretched or squeezed to a target, in whole tenths of a second that add up to it exactly. No
 * scene gets shorter than its share of what can still be read: then the sum is larger than the target.
 */
export function fitDurations(
  durationsMs: readonly number[],
  targetMs: number,
  { shortestMs, fastest }: { shortestMs: number; fastest: number },
): number[] {
  const total = durationsMs.reduce((sum, ms) => sum + ms, 0);
  const factor = Math.max(targetMs / total, 1 / fastest);
  const fitted = durationsMs.map((ms) =>
    Math.max(shortestMs, Math.round((ms * factor) / 100) * 100),
  );
  let rest = targetMs - fitted.reduce((sum, ms) => sum + ms, 0);
  const count = fitted.length;
  if (Math.abs(rest) > 100 * count) return fitted;
  // What rounding left over, a tenth of a second to each scene that can take it, from the last one on.
  for (let turn = 1; rest !== 0 && turn <= 4 * count; turn += 1) {
    const at = count - 1 - ((turn - 1) % count);
    const step = Math.sign(rest) * Math.min(100, Math.abs(rest));
    if (fitted[at]! + step < shortestMs) continue;
    fitted[at] = fitted[at]! + step;
    rest -= step;
  }
  return fitted;
}

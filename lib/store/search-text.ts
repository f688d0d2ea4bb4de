/**
 * Full-text search that works for Chinese with words of one or two characters: scripts that are written
 * without spaces become one token a character, others one token a word, and a query becomes phrases of such
 * tokens. Pure; adapters only store and match tokens.
 */

const PIECES = /[\p{L}\p{N}\p{M}]+/gu;
const UNSPACED =
  /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmr}\p{scx=Mymr}]/u;

export const searchLimits = {
  queryTokensMax: 32,
  tokenCharsMax: 64,
  textTokensMax: 50_000,
} as const;

/** One form for full width and half width, upper and lower case, with and without accents. */
const fold = (text: string) =>
  text
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .normalize("NFKC")
    .toLowerCase();

/** Tokens in the order of the text. */
export function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  for (const [piece] of fold(text).matchAll(PIECES)) {
    // A word may run into a script without spaces, as in "vlog日记".
    for (const token of partScripts(piece)) {
      tokens.push([...token].slice(0, searchLimits.tokenCharsMax).join(""));
      if (tokens.length >= searchLimits.textTokensMax) return tokens;
    }
  }
  return tokens;
}

function partScripts(piece: string): string[] {
  const parts: string[] = [];
  let word = "";
  for (const char of piece) {
    const alone = UNSPACED.test(char);
    if (!alone) {
      word += char;
      continue;
    }
    if (word) parts.push(word);
    word = "";
    parts.push(char);
  }
  if (word) parts.push(word);
  return parts;
}

export interface Phrase {
  tokens: string[];
  /** The last token may be the beginning of a word, as while somebody types. */
  prefix: boolean;
}

/** A query's phrases; every one must occur. Words are parted by spaces. */
export function phrasesOf(query: string): Phrase[] {
  const phrases: Phrase[] = [];
  let count = 0;
  for (const term of query.split(/\s+/u)) {
    const tokens = tokensOf(term).slice(0, searchLimits.queryTokensMax - count);
    count += tokens.length;
    if (tokens.length > 0)
      phrases.push({ tokens, prefix: !UNSPACED.test(tokens[tokens.length - 1]!) });
  }
  return phrases;
}

/** Whether one text holds a phrase; what an index must agree with. */
export function holdsPhrase(text: readonly string[], { tokens, prefix }: Phrase): boolean {
  return text.some((_, start) =>
    tokens.every((token, offset) => {
      const found = text[start + offset];
      if (found === undefined) return false;
      return prefix && offset === tokens.length - 1 ? found.startsWith(token) : found === token;
    }),
  );
}

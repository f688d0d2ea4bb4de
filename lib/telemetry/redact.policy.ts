/** Names of fields and of query parts whose values nobody may read in a log. */
const SECRET_NAME =
  /authorization|cookie|token|passw|secret|signature|credential|api[-_]?key|private[-_]?key|mesh[-_]?key/i;
const HIDDEN = "[hidden]";

const patterns: readonly (readonly [RegExp, string])[] = [
  [/\b(Bearer|Basic)\s+[\w.~+/=-]+/gi, `$1 ${HIDDEN}`],
  // user:password@ of an address
  [/(\b[a-z][\w+.-]*:\/\/)[^\s/@:]*:[^\s/@]*@/gi, `$1${HIDDEN}@`],
  [
    /\b([\w-]*(?:token|passw(?:or)?d|secret|signature|credential|api-?key)[\w-]*)(["']?\s*[=:]\s*["']?)[^\s&"',;}]+/gi,
    `$1$2${HIDDEN}`,
  ],
  [/([?&](?:sig|key|code|policy)=)[^\s&"']+/gi, `$1${HIDDEN}`],
];

/** Text without what looks like a secret, and without those that this node knows. */
export function redactText(text: string, secrets: readonly string[]): string {
  let shown = text;
  for (const secret of secrets)
    if (shown.includes(secret)) shown = shown.replaceAll(secret, HIDDEN);
  for (const [pattern, instead] of patterns) shown = shown.replace(pattern, instead);
  return shown;
}

const DEPTH_MAX = 6;
const ENTRIES_MAX = 100;

/** A value as a log may show it: bounded in depth and width, secrets hidden by name and by form. */
export function redactValue(value: unknown, secrets: readonly string[], depth = 0): unknown {
  if (typeof value === "string") return redactText(value, secrets);
  if (typeof value === "bigint" || typeof value === "symbol" || typeof value === "function")
    return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth >= DEPTH_MAX) return "[deep]";
  if (value instanceof Error) return redactError(value, secrets, depth);
  if (value instanceof Uint8Array) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value))
    return value.slice(0, ENTRIES_MAX).map((one) => redactValue(one, secrets, depth + 1));
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, ENTRIES_MAX)
      .map(([name, field]) => [
        name,
        SECRET_NAME.test(name) && field !== undefined && field !== null
          ? HIDDEN
          : redactValue(field, secrets, depth + 1),
      ]),
  );
}

function redactError(error: Error, secrets: readonly string[], depth: number): unknown {
  const { type, code, cause, data } = error as Error & Record<string, unknown>;
  return {
    name: error.name,
    message: redactText(error.message, secrets),
    stack: redactText(error.stack ?? "", secrets),
    ...(type === undefined ? {} : { type: redactValue(type, secrets, depth + 1) }),
    ...(code === undefined ? {} : { code: redactValue(code, secrets, depth + 1) }),
    ...(data === undefined ? {} : { data: redactValue(data, secrets, depth + 1) }),
    ...(cause === undefined ? {} : { cause: redactValue(cause, secrets, depth + 1) }),
  };
}

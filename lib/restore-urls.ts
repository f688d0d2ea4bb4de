const looksLikeUrl = /^\s*[a-z][a-z0-9+.-]{1,15}:\/\/\S+\s*$/i;
const escapedAmpersand = /&(?:(?:amp|#0*38|#x0*26);)+/gi;

/**
 * A URL whose ampersands were turned into HTML entities somewhere on the way, as it was before. A presigned
 * URL with `&amp;` in it loses all parameters after the first, and so its signature. Text that is no URL
 * is left alone: a caption may well say `&amp;`. (Platform document, MCP interface, rule 3.)
 */
export const restoreUrl = (text: string): string =>
  looksLikeUrl.test(text) ? text.replace(escapedAmpersand, "&") : text;

/** `restoreUrl` over every string inside a value; the value itself is not changed. */
export function restoreUrls<T>(value: T): T {
  if (typeof value === "string") return restoreUrl(value) as T;
  if (Array.isArray(value)) return value.map(restoreUrls) as T;
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name, restoreUrls(part)]),
  ) as T;
}

/** Where a source lies, read from what a client wrote. */
export type Source =
  | { type: "object"; bucket: string; key: string }
  | { type: "url"; url: string; host: string };

export interface SourceContext {
  /** Bucket of plain keys. */
  bucket: string;
  /** Origins of this product's own gateway, whose object links are read from storage directly. */
  ownOrigins: readonly string[];
  /** The gateway's port is picked at start: any port of the own hosts counts. */
  anyPort?: boolean;
  /** Public address of the bucket, if it has one. */
  bucketUrl?: string;
  /** The S3 server's own addresses, as they stand in its signed links. */
  s3?: { endpoints: readonly string[]; addressing: "path" | "virtual" };
}

const lengthMax = 8192;
const bucketForm = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/;

/** Signed links pass through editors that escape them; storage then refuses the signature. */
export const restoreAmpersands = (text: string): string => text.replaceAll("&amp;", "&");

function readKey(bucket: string, key: string): Source | { reason: string } {
  if (!bucketForm.test(bucket)) return { reason: `"${bucket}" is not a bucket name` };
  if (key === "") return { reason: "the object key is empty" };
  if (key.split(/[\\/]/).some((part) => part === ".." || part === "."))
    return { reason: "the path has a part . or .. in it; give the full key of the object" };
  if (key.startsWith("/"))
    return {
      reason:
        "it is a path on some machine; give a URL or the key of an uploaded object, without a leading slash",
    };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not be there
  if (/[\u0000-\u001f]/.test(key)) return { reason: "the object key has control characters in it" };
  return { type: "object", bucket, key };
}

const decoded = (path: string): string | undefined => {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
};

/** A link to the product's own storage, as an object. */
function ownObject(url: URL, context: SourceContext): Source | { reason: string } | undefined {
  const own = context.ownOrigins.some((origin) => {
    const known = new URL(origin);
    return context.anyPort ? known.hostname === url.hostname : known.origin === url.origin;
  });
  const path = own ? /^\/objects\/([^/]+)\/(.+)$/.exec(url.pathname) : null;
  if (path) return readKey(path[1] ?? "", decoded(path[2] ?? "") ?? "");
  const bucketUrl = context.bucketUrl && new URL(context.bucketUrl);
  if (bucketUrl && bucketUrl.origin === url.origin && url.search === "") {
    const base = bucketUrl.pathname.endsWith("/") ? bucketUrl.pathname : `${bucketUrl.pathname}/`;
    if (url.pathname.startsWith(base))
      return readKey(context.bucket, decoded(url.pathname.slice(base.length)) ?? "");
  }
  return s3Object(url, context.s3);
}

/** A link that our own S3 server signed. Its address may be private, and only this object of it is meant. */
function s3Object(url: URL, s3: SourceContext["s3"]): Source | { reason: string } | undefined {
  for (const endpoint of s3?.endpoints ?? []) {
    const { protocol, host, pathname } = new URL(endpoint);
    const base = pathname.replace(/\/+$/, "");
    if (url.protocol !== protocol || !url.pathname.startsWith(`${base}/`)) continue;
    const path = decoded(url.pathname.slice(base.length + 1)) ?? "";
    const bucket = url.host.endsWith(`.${host}`) ? url.host.slice(0, -host.length - 1) : undefined;
    if (s3?.addressing === "virtual" && bucket) return readKey(bucket, path);
    const parts = url.host === host ? /^([^/]+)\/(.+)$/s.exec(path) : null;
    if (parts) return readKey(parts[1] ?? "", parts[2] ?? "");
  }
  return undefined;
}

/**
 * What a source means: an http(s) URL, `oss://bucket/key`, or the key of an object in the product's
 * bucket. Anything else, first of all a path of some machine, is refused with a reason.
 */
export function readSource(text: string, context: SourceContext): Source | { reason: string } {
  const source = restoreAmpersands(text.trim());
  if (source === "") return { reason: "the source is empty" };
  if (source.length > lengthMax)
    return { reason: `the source is longer than ${lengthMax} characters` };
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(source)?.[1]?.toLowerCase();
  if (scheme === "oss") {
    const parts = /^oss:\/\/([^/]+)\/(.*)$/i.exec(source);
    return parts
      ? readKey(parts[1] ?? "", parts[2] ?? "")
      : { reason: "an object is written oss://bucket/key" };
  }
  if (scheme === "http" || scheme === "https") {
    if (!URL.canParse(source)) return { reason: "the URL cannot be parsed" };
    const url = new URL(source);
    if (url.username || url.password)
      return { reason: "the URL has a user name or password in it" };
    return ownObject(url, context) ?? { type: "url", url: url.href, host: url.hostname };
  }
  if (scheme && /^[a-z][a-z0-9+.-]*:\/\//i.test(source))
    return {
      reason: `${scheme}:// is not supported; give http://, https://, oss://bucket/key or an object key`,
    };
  if (scheme === "data" || scheme === "file" || /^[a-z]:[\\/]/i.test(source))
    return { reason: "give http://, https://, oss://bucket/key or an object key" };
  return readKey(context.bucket, source);
}

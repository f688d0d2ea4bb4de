import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { AppError, asAppError } from "../../lib/errors.ts";
import type { RawExchange, RawRoute } from "../gateway/raw-route.ts";
import { type ByteRange, byteRangeOf } from "./byte-range.ts";
import { formUploadRoutes } from "./form-upload.ts";
import type { ObjectInfo, ObjectRef } from "./object-store.ts";
import { withBody } from "./request-stream.ts";

/** Types that a browser may show from our address: they cannot run script. Everything else is a download. */
const shownInline =
  /^(image\/(?!svg)[\w.+-]+|video\/[\w.+-]+|audio\/[\w.+-]+|text\/plain|application\/json)\b/;

const integerOf = (text: string | null): number | undefined => {
  if (text === null) return undefined;
  // Kept as it is when it is no number, so that the signature check refuses it.
  return /^\d{1,15}$/.test(text) ? Number(text) : -1;
};

async function admitted({ params, query, host }: RawExchange, method: "GET" | "PUT") {
  const ref = { bucket: params["bucket"] ?? "", key: params["key"] ?? "" };
  const bytesMax = integerOf(query.get("max-bytes"));
  await host.call("storage.admit", {
    ...ref,
    method,
    expires: integerOf(query.get("expires")),
    bytesMax,
    signature: query.get("signature") ?? undefined,
  });
  return { ref, bytesMax };
}

/** `filename` for old clients, `filename*` (RFC 8187) with the real name. */
function disposition(info: ObjectInfo): string {
  const name = info.key.split("/").filter(Boolean).at(-1) ?? "object";
  const plain = name.replace(/[^\w.-]/g, "_");
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  const kind = shownInline.test(info.contentType) ? "inline" : "attachment";
  return `${kind}; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

function headersOf(info: ObjectInfo): Record<string, string> {
  return {
    "Content-Type": info.contentType,
    "Content-Disposition": disposition(info),
    ETag: `"${info.etag}"`,
    "Last-Modified": new Date(info.modifiedAt).toUTCString(),
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-cache",
    "X-Content-Type-Options": "nosniff",
    // What somebody uploaded must never act in the name of this address.
    "Content-Security-Policy": "sandbox; default-src 'none'; media-src 'self'; img-src 'self'",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, Content-Range, Content-Length, Accept-Ranges",
  };
}

const hasTag = (header: string, etag: string) =>
  header
    .split(",")
    .map((tag) => tag.trim().replace(/^W\//, ""))
    .some((tag) => tag === "*" || tag === `"${etag}"`);

/** A range counts only for the content that `If-Range` names (RFC 9110, section 13.1.5). */
function rangeFor(req: IncomingMessage, info: ObjectInfo): ByteRange | "unsatisfiable" | undefined {
  const condition = req.headers["if-range"];
  if (
    condition !== undefined &&
    condition !== `"${info.etag}"` &&
    condition !== new Date(info.modifiedAt).toUTCString()
  )
    return undefined;
  return byteRangeOf(req.headers.range, info.bytes);
}

interface Opened {
  info: ObjectInfo;
  range: ByteRange | "unsatisfiable" | undefined;
  /** Absent where the answer has no body. */
  source?: Readable;
}

/** Head and content of one and the same version; one that is replaced in between is asked for again. */
async function openObject(
  req: IncomingMessage,
  host: RawExchange["host"],
  ref: ObjectRef,
): Promise<Opened> {
  for (let attempt = 1; ; attempt += 1) {
    const info = await host.call("storage.stat", ref);
    const known = hasTag(req.headers["if-none-match"] ?? "", info.etag);
    const range = rangeFor(req, info);
    if (req.method === "HEAD" || known || range === "unsatisfiable" || info.bytes === 0)
      return { info, range };
    try {
      const source = await host.call("storage.read", { ...ref, ...range, etag: info.etag });
      return { info, range, source: source as Readable };
    } catch (error) {
      if (asAppError(error)?.type !== "OBJECT_CHANGED" || attempt === 3) throw error;
    }
  }
}

async function serve(
  req: IncomingMessage,
  res: ServerResponse,
  exchange: RawExchange,
): Promise<void> {
  const { ref } = await admitted(exchange, "GET");
  const { info, range, source } = await openObject(req, exchange.host, ref);
  const headers = headersOf(info);
  if (hasTag(req.headers["if-none-match"] ?? "", info.etag)) {
    res.writeHead(304, headers).end();
    return;
  }
  if (range === "unsatisfiable") {
    res.setHeader("Content-Range", `bytes */${info.bytes}`);
    throw new AppError("RANGE_NOT_SATISFIABLE", { size: info.bytes });
  }
  if (range) headers["Content-Range"] = `bytes ${range.start}-${range.end}/${info.bytes}`;
  headers["Content-Length"] = String(range ? range.end - range.start + 1 : info.bytes);
  res.writeHead(range ? 206 : 200, headers);
  if (!source) {
    res.end();
    return;
  }
  // A client that goes away destroys the source, and with it the open file.
  await pipeline(source, res, { signal: exchange.signal }).catch(() => res.destroy());
}

async function take(
  req: IncomingMessage,
  res: ServerResponse,
  exchange: RawExchange,
): Promise<void> {
  const { ref, bytesMax } = await admitted(exchange, "PUT");
  const announced = integerOf(req.headers["content-length"] ?? null);
  if (bytesMax !== undefined && announced !== undefined && announced > bytesMax)
    throw new AppError("PAYLOAD_TOO_LARGE", { limit: `${bytesMax} bytes` });
  const contentType = req.headers["content-type"]?.slice(0, 255);
  const md5 = req.headers["content-md5"];
  const stored = await withBody(req, (stream) =>
    exchange.host.call(
      "storage.put",
      { ...ref, contentType, bytes: announced, bytesMax, md5: md5 as string | undefined },
      { stream },
    ),
  );
  res.setHeader("ETag", `"${stored.etag}"`);
  res.setHeader("Content-Type", "application/json; charset=utf-8");
  res.end(JSON.stringify(stored));
}

/** Objects over HTTP. No bearer token: the signature in the link is the permission. */
export const objectRoutes: readonly RawRoute[] = [
  {
    method: "GET",
    path: "/objects/{bucket}/{key*}",
    access: "public",
    summary: "Read an object by its signed link; ranges and conditional requests",
    handle: serve,
  },
  {
    method: "PUT",
    path: "/objects/{bucket}/{key*}",
    access: "public",
    summary: "Store an object by its signed upload link",
    requestTypes: ["application/octet-stream"],
    handle: take,
  },
  ...formUploadRoutes,
];

import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { Errors } from "moleculer";
import { Agent, type Dispatcher, request } from "undici";
import { AppError, asAppError } from "../../lib/errors.ts";
import type { FetchAllow } from "../../lib/net/address.policy.ts";
import { guardedAgent, refusalIn } from "../../lib/net/guarded-fetch.ts";
import type { ServiceHost } from "../../lib/service.ts";
import { traceHeaders } from "../../lib/telemetry/work-scope.ts";
import type { ExecutionLimits } from "./config.ts";

export interface ObjectName {
  bucket: string;
  key: string;
}
/** A local file on its way into storage. */
export interface OutgoingObject extends ObjectName {
  contentType: string;
  bytes: number;
  /** Base64, as in the header Content-MD5. */
  md5: string;
}

/** An object from byte `start` on. */
export interface ReadFrom extends ObjectName {
  start: number;
  /** Of this content only, once the beginning of one has been read. */
  etag?: string;
}
export interface OpenedObject {
  /** Of the whole object. */
  bytes: number;
  etag: string;
  body: AsyncIterable<Uint8Array>;
  /** Frees the connection; must be called, read or not. */
  close(): Promise<void>;
}

/**
 * How a compose node gets at objects. Each method is one try; what may pass by itself is thrown as UNAVAILABLE,
 * a content that was replaced meanwhile as OBJECT_CHANGED.
 */
export interface ObjectAccess {
  /** @throws AppError OBJECT_NOT_FOUND */
  read(from: ReadFrom, signal: AbortSignal): Promise<OpenedObject>;
  /** Resolves when the object is durable. After an abort it settles only when nothing can be stored any more. */
  write(file: string, object: OutgoingObject, signal: AbortSignal): Promise<void>;
}

/** Where signed links come from; asked anew for each try, so that one that ran out is no matter. */
export interface LinkSource {
  /** @throws AppError OBJECT_NOT_FOUND, where that can be known. */
  readLink(object: ObjectName): Promise<string>;
  /** A link that takes exactly this object by PUT, told its size and MD5 in the usual headers. */
  uploadLink(object: OutgoingObject): Promise<string>;
  /** Where links come from somebody else, they may lead into private networks as far as this only. */
  readonly allow?: FetchAllow;
}

export type AccessLimits = Pick<
  ExecutionLimits,
  "callMs" | "linkSeconds" | "silenceMs" | "connectMs" | "settleMs"
>;

type AccessHost = Pick<ServiceHost, "call">;

const away = (reason: string, cause?: unknown) => new AppError("UNAVAILABLE", { reason }, cause);
const passing = [
  Errors.ServiceNotFoundError,
  Errors.ServiceNotAvailableError,
  Errors.RequestTimeoutError,
  Errors.RequestRejectedError,
];

/** A node that has just gone is no error of the job. */
async function throughMesh<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (asAppError(error) || !passing.some((type) => error instanceof type)) throw error;
    throw away(`the object storage service: ${(error as Error).message}`, error);
  }
}

const networkCodes = /^(ECONN|EPIPE|EHOST|ENET|ENOTFOUND|EAI_|ETIMEDOUT|UND_ERR_|CERT_|ERR_TLS)/;

/** Words for a connection that failed or broke; anything else is passed on as it is. */
function brokenLine(error: unknown, host: string): unknown {
  for (let at = error as NodeJS.ErrnoException | undefined; at; at = at.cause as typeof at) {
    const code = at.code ?? (at as { errors?: NodeJS.ErrnoException[] }).errors?.[0]?.code;
    if (code && networkCodes.test(code))
      return away(`the connection to ${host} failed (${code})`, error);
  }
  return error;
}

async function* online(body: AsyncIterable<Uint8Array>, host: string) {
  try {
    yield* body;
  } catch (error) {
    throw brokenLine(error, host);
  }
}

/** Through the storage service of this very process. */
export function directAccess({ call }: AccessHost): ObjectAccess {
  return {
    async read({ start, etag: wanted, ...object }, signal) {
      signal.throwIfAborted();
      const { bytes, etag } = await throughMesh(call("storage.stat", object));
      if (wanted !== undefined && wanted !== etag)
        throw new AppError("OBJECT_CHANGED", { ...object });
      if (start >= bytes) return { bytes, etag, body: nothing(), close: async () => {} };
      const range = { ...object, start, etag };
      const stream = await throughMesh(call("storage.read", range, { timeout: 0 }));
      const source = stream as Readable;
      // A stream that is closed unread must not end the process with its error.
      source.on("error", () => undefined);
      const body = online(source, "the object storage server");
      return { bytes, etag, body, close: async () => void source.destroy() };
    },
    async write(file, object, signal) {
      const stream = createReadStream(file);
      const stop = () => stream.destroy(signal.reason as Error);
      signal.addEventListener("abort", stop, { once: true });
      try {
        signal.throwIfAborted();
        await throughMesh(call("storage.put", object, { stream, timeout: 0 }));
      } finally {
        signal.removeEventListener("abort", stop);
        stream.destroy();
      }
    },
  };
}

/** Links from the storage service, wherever it runs in the mesh. */
export function meshLinks(
  { call }: AccessHost,
  { callMs: timeout, linkSeconds: expires }: AccessLimits,
): LinkSource {
  const forNode = { expires, audience: "node" } as const;
  return {
    async readLink(object) {
      // A link does not tell a missing object from a wrong address; this does.
      await throughMesh(call("storage.stat", object, { timeout }));
      const link = call("storage.link", { ...object, ...forNode }, { timeout });
      return (await throughMesh(link)).url;
    },
    async uploadLink({ bucket, key, bytes, md5 }) {
      const asked = { bucket, key, bytes, md5, ...forNode };
      return (await throughMesh(call("storage.uploadLink", asked, { timeout }))).url;
    },
  };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** Drops what a server that does not know ranges sends too much. */
async function* after(start: number, body: AsyncIterable<Uint8Array>) {
  let skipped = 0;
  for await (const chunk of body) {
    const cut = Math.min(start - skipped, chunk.byteLength);
    skipped += cut;
    if (cut < chunk.byteLength) yield chunk.subarray(cut);
  }
}

const answerCharsMax = 4_096;

/** What a refusal says, in our own words where it comes from a gateway. */
async function refusalOf(
  answer: Dispatcher.ResponseData,
  host: string,
  { bucket, key }: ObjectName,
): Promise<AppError> {
  const text = (await answer.body.text().catch(() => "")).slice(0, answerCharsMax);
  const status = answer.statusCode;
  if (status === 507) return new AppError("DISK_FULL", { where: "the object storage" });
  const code = /<Code>([^<]{1,100})<\/Code>/.exec(text)?.[1];
  const { type, message } = gatewayError(text);
  // Any other 404 comes from somebody else than the store: the address is wrong.
  if (code === "NoSuchKey" || type === "OBJECT_NOT_FOUND")
    return new AppError("OBJECT_NOT_FOUND", { bucket, key });
  if (type === "PAYLOAD_TOO_LARGE")
    return new AppError(type, { limit: "what the upload link permits" });
  return away(`${host} answers with status ${status} ${message ?? code ?? ""}`.trimEnd());
}

function gatewayError(text: string): { type?: unknown; message?: string } {
  try {
    const { error } = JSON.parse(text) as { error?: { type?: unknown; message?: string } };
    return error ?? {};
  } catch {
    return {};
  }
}

const agentFor = ({ connectMs, silenceMs }: AccessLimits, allow: FetchAllow | undefined) =>
  allow
    ? guardedAgent({ allow, connectMs, silenceMs })
    : new Agent({
        connect: { timeout: connectMs },
        headersTimeout: silenceMs,
        bodyTimeout: silenceMs,
      });

/** Size of the whole object, by an answer to a request from `start` on. */
function wholeSize({ statusCode, headers }: Dispatcher.ResponseData, host: string): number {
  const size =
    statusCode === 206
      ? /\/(\d{1,15})$/.exec(String(headers["content-range"]))?.[1]
      : headers["content-length"];
  if (size === undefined) throw away(`${host} does not tell the size of the object`);
  return Number(size);
}

/** What a request over a link is bound by. */
interface Under {
  signal: AbortSignal;
  allow: FetchAllow | undefined;
}

async function openLink(
  url: string,
  { start, etag: wanted, ...object }: ReadFrom,
  limits: AccessLimits,
  { signal, allow }: Under,
): Promise<OpenedObject> {
  const { host } = new URL(url);
  const dispatcher = agentFor(limits, allow);
  try {
    const headers = { ...traceHeaders(), ...(start > 0 ? { range: `bytes=${start}-` } : {}) };
    const answer = await request(url, { dispatcher, signal, headers });
    const { statusCode } = answer;
    if (statusCode === 416) throw new AppError("OBJECT_CHANGED", { ...object });
    if (statusCode !== 200 && statusCode !== 206) throw await refusalOf(answer, host, object);
    const etag = String(answer.headers["etag"] ?? "").replace(/^"|"$/g, "");
    if (wanted !== undefined && wanted !== etag)
      throw new AppError("OBJECT_CHANGED", { ...object });
    const bytes = wholeSize(answer, host);
    const content = statusCode === 200 ? after(start, answer.body) : answer.body;
    return { bytes, etag, body: online(content, host), close: () => dispatcher.destroy() };
  } catch (error) {
    await dispatcher.destroy();
    signal.throwIfAborted();
    throw refusalIn(error) ?? brokenLine(error, host);
  }
}

/** The content of a file, with an alarm for a server that takes nothing any more. */
class OutgoingFile {
  readonly #file: string;
  readonly #silenceMs: number;
  readonly #stalled: () => void;
  #alarm: NodeJS.Timeout | undefined;
  #isClosed = false;
  sent = 0;

  constructor(file: string, silenceMs: number, stalled: () => void) {
    this.#file = file;
    this.#silenceMs = silenceMs;
    this.#stalled = stalled;
  }

  async *content(): AsyncGenerator<Buffer> {
    this.#arm();
    for await (const chunk of createReadStream(this.#file)) {
      this.#arm();
      this.sent += chunk.length;
      yield chunk;
    }
    // From here on the server's silence counts, for which the request has a limit of its own.
    this.close();
  }

  #arm(): void {
    clearTimeout(this.#alarm);
    // What is still being read when the line is gone must not keep anything waiting.
    if (this.#isClosed) return;
    this.#alarm = setTimeout(this.#stalled, this.#silenceMs);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#alarm);
  }
}

async function putLink(
  url: string,
  file: string,
  object: OutgoingObject,
  limits: AccessLimits,
  { signal, allow }: Under,
): Promise<void> {
  const { contentType, bytes, md5 } = object;
  const { host } = new URL(url);
  const line = new AbortController();
  const outgoing = new OutgoingFile(file, limits.silenceMs, () =>
    line.abort(away(`${host} takes nothing any more`)),
  );
  let settle: NodeJS.Timeout | undefined;
  const stop = () => {
    // What was sent whole may be stored: its answer is awaited, so that a removal does not come too early.
    if (outgoing.sent < bytes) line.abort(signal.reason);
    else settle = setTimeout(() => line.abort(signal.reason), limits.settleMs);
  };
  signal.throwIfAborted();
  signal.addEventListener("abort", stop, { once: true });
  const dispatcher = agentFor(limits, allow);
  try {
    const answer = await request(url, {
      dispatcher,
      method: "PUT",
      signal: line.signal,
      headers: {
        ...traceHeaders(),
        "content-length": String(bytes),
        "content-type": contentType,
        "content-md5": md5,
      },
      body: Readable.from(outgoing.content(), { objectMode: false }),
    });
    if (answer.statusCode >= 300) throw await refusalOf(answer, host, object);
    await answer.body.dump();
  } catch (error) {
    signal.throwIfAborted();
    throw refusalIn(error) ?? brokenLine(error, host);
  } finally {
    outgoing.close();
    clearTimeout(settle);
    signal.removeEventListener("abort", stop);
    await dispatcher.destroy();
  }
}

/**
 * Through signed links, over HTTP: of the S3 server where there is one, else of a gateway. Only the links travel
 * through the mesh. The address comes from the storage service, never from a client, and redirects are not
 * followed, so that it may be a private one.
 */
export const linkAccess = (links: LinkSource, limits: AccessLimits): ObjectAccess => ({
  async read(from, signal) {
    return openLink(await links.readLink(from), from, limits, { signal, allow: links.allow });
  },
  async write(file, object, signal) {
    const link = await links.uploadLink(object);
    await putLink(link, file, object, limits, { signal, allow: links.allow });
  },
});

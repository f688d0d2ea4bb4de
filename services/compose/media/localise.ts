import { createWriteStream } from "node:fs";
import { open, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { AppError, asAppError } from "../../../lib/errors.ts";
import { readFetchAllow } from "../../../lib/net/address.policy.ts";
import {
  type GuardedFetchOptions,
  guardedFetch,
  type Resolve,
} from "../../../lib/net/guarded-fetch.ts";
import type { ExecutorTools } from "../executor.ts";
import { type MediaLimits, mediaLimits } from "./config.ts";
import { readSignature, signatureBytes } from "./media-signature.policy.ts";
import { sourceContext } from "./own-origins.ts";
import { type ProbeOptions, probe } from "./probe.ts";
import type { MediaFacts } from "./probe-facts.policy.ts";
import { readSource } from "./source.policy.ts";

type LocaliseTools = Pick<
  ExecutorTools,
  "config" | "workDir" | "signal" | "download" | "addresses"
>;

export interface LocaliseOptions {
  /** Name of the clip in errors. */
  clip: string;
  /** File name in the work directory, without extension; unique within the attempt. */
  name: string;
  limits?: MediaLimits;
  /** For tests. */
  resolve?: Resolve;
}

/** A try again would not help: the job ends at once. */
const notThere = (clip: string, reason: string) =>
  new AppError("MEDIA_UNREADABLE", { clip, expected: "media", reason });
const fetchFailed = (clip: string, reason: string, cause?: unknown) =>
  new AppError("MEDIA_FETCH_FAILED", { clip, reason }, cause);

/** Words for what went wrong on the network, in the order in which causes are nested. */
function networkReason(error: unknown): string {
  for (let at = error as NodeJS.ErrnoException | undefined; at; at = at.cause as typeof at) {
    const inner = (at as { errors?: NodeJS.ErrnoException[] }).errors?.[0];
    const code = at.code ?? inner?.code;
    if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "its host name is not known";
    if (code === "ECONNREFUSED") return "its host refuses the connection";
    if (code === "ECONNRESET" || code === "UND_ERR_SOCKET") return "the connection broke off";
    if (code?.endsWith("TIMEOUT") || code === "ETIMEDOUT")
      return "its host does not answer in time";
    if (code?.startsWith("CERT_") || code?.includes("SSL") || code?.includes("_CERT"))
      return `its certificate is not valid (${code})`;
  }
  return (error as Error).message.slice(0, 200);
}

/** Passes a body on and stops it at the limit, before the disk is full of it. */
async function* limited(body: AsyncIterable<Uint8Array>, clip: string, bytesMax: number) {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge(clip, bytesMax);
    yield chunk;
  }
}
const tooLarge = (clip: string, bytesMax: number) =>
  new AppError("MEDIA_UNREADABLE", {
    clip,
    expected: "media",
    reason: `it has more than ${Math.floor(bytesMax / 1024 ** 2)} MiB`,
  });

async function fetchTo(url: string, file: string, tools: LocaliseTools, options: LocaliseOptions) {
  const limits = options.limits ?? mediaLimits;
  const deadline = AbortSignal.timeout(limits.fetchMs);
  const guard: GuardedFetchOptions = {
    allow: readFetchAllow(tools.config.FETCH_ALLOW),
    redirectsMax: limits.redirectsMax,
    connectMs: limits.connectMs,
    silenceMs: limits.silenceMs,
    signal: AbortSignal.any([tools.signal, deadline]),
    resolve: options.resolve,
  };
  try {
    const response = await guardedFetch(url, guard);
    try {
      if (response.status !== 200) {
        const reason = `its host answers with status ${response.status}`;
        const lasting = response.status >= 400 && response.status < 500;
        throw lasting && ![408, 425, 429].includes(response.status)
          ? notThere(options.clip, reason)
          : fetchFailed(options.clip, reason);
      }
      const announced = Number(response.headers["content-length"]);
      if (announced > limits.sourceBytesMax) throw tooLarge(options.clip, limits.sourceBytesMax);
      const body = limited(response.body, options.clip, limits.sourceBytesMax);
      await pipeline(Readable.from(body), createWriteStream(file), { signal: guard.signal });
      const { size } = await stat(file);
      if (Number.isFinite(announced) && size < announced)
        throw fetchFailed(options.clip, `it broke off after ${size} of ${announced} bytes`);
    } finally {
      await response.close();
    }
  } catch (error) {
    const known = asAppError(error);
    if (known?.type === "ADDRESS_FORBIDDEN")
      throw new AppError("ADDRESS_FORBIDDEN", {
        ...known.data,
        reason: `${options.clip}: ${known.data.reason}`,
        clip: options.clip,
      });
    if (known) throw error;
    if ((error as NodeJS.ErrnoException).code === "ENOSPC")
      throw new AppError("DISK_FULL", { where: "the work disk of the compose node" });
    if (tools.signal.aborted) throw error;
    if (deadline.aborted)
      throw fetchFailed(options.clip, `it took longer than ${limits.fetchMs / 1000} s`);
    throw fetchFailed(options.clip, networkReason(error), error);
  }
}

/** The extension by content: FFmpeg chooses the decoder of a still image by it. */
async function nameByContent(file: string): Promise<string> {
  const handle = await open(file, "r");
  const start = Buffer.alloc(signatureBytes);
  const { bytesRead } = await handle
    .read(start, 0, signatureBytes, 0)
    .finally(() => handle.close());
  const signature = readSignature(start.subarray(0, bytesRead));
  if ("reason" in signature) return file; // `probe` says so with the clip's name.
  const named = `${file}.${signature.extension}`;
  await rename(file, named);
  return named;
}

/**
 * Brings a source (http(s) URL, `oss://bucket/key` or object key) to a file in the work directory.
 * Nothing is left of one that could not be had.
 * @throws AppError INVALID_INPUT, ADDRESS_FORBIDDEN, MEDIA_FETCH_FAILED, OBJECT_NOT_FOUND, naming the clip.
 */
export async function localise(
  src: string,
  tools: LocaliseTools,
  options: LocaliseOptions,
): Promise<string> {
  const source = readSource(src, sourceContext(tools.config, await tools.addresses()));
  if ("reason" in source)
    throw new AppError("INVALID_INPUT", { reason: `${options.clip}: ${source.reason}` });
  const file = join(tools.workDir, options.name);
  try {
    if (source.type === "url") await fetchTo(source.url, file, tools, options);
    else {
      const { sourceBytesMax } = options.limits ?? mediaLimits;
      const { bucket, key } = source;
      await tools.download({ bucket, key }, file, sourceBytesMax).catch((error) => {
        const type = asAppError(error)?.type;
        if (type === "PAYLOAD_TOO_LARGE") throw tooLarge(options.clip, sourceBytesMax);
        throw type === "OBJECT_NOT_FOUND"
          ? notThere(options.clip, `there is no object ${bucket}/${key}`)
          : error;
      });
    }
    return await nameByContent(file);
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  }
}

export interface WantedSource {
  src: string;
  clip: string;
  expected?: ProbeOptions["expected"];
}
export interface LocalSource {
  file: string;
  facts: MediaFacts;
}

/**
 * Brings many sources in, each once however often it is used, and looks at what they are. `onDone` hears the share that is in.
 * @returns in the order of `wanted`.
 */
export async function bringAll(
  wanted: readonly WantedSource[],
  tools: LocaliseTools & Pick<ExecutorTools, "run">,
  options: { limits?: MediaLimits; resolve?: Resolve; onDone?: (fraction: number) => void } = {},
): Promise<LocalSource[]> {
  const files = new Map<string, Promise<string>>();
  const results: LocalSource[] = [];
  let next = 0;
  let done = 0;
  let failed = false;
  const worker = async () => {
    for (let index = next++; index < wanted.length && !failed; index = next++) {
      const { src, clip, expected } = wanted[index]!;
      const name = `source-${files.size}`;
      const file = files.get(src) ?? localise(src, tools, { ...options, clip, name });
      files.set(src, file);
      const local = await file;
      results[index] = { file: local, facts: await probe(local, tools, { clip, expected }) };
      options.onDone?.(++done / wanted.length);
    }
  };
  const { parallelMax } = options.limits ?? mediaLimits;
  const workers = Array.from({ length: Math.min(parallelMax, wanted.length) }, () =>
    worker().catch((error) => {
      failed = true;
      throw error;
    }),
  );
  // One failure ends the attempt, but only after the others have let go of their files.
  const settled = await Promise.allSettled(workers);
  const failure = settled.find((result) => result.status === "rejected");
  if (failure) throw failure.reason;
  return results;
}

import { createHash } from "node:crypto";
import { AppError } from "../../lib/errors.ts";

export interface ObjectRef {
  bucket: string;
  key: string;
}

export interface StoredObject extends ObjectRef {
  bytes: number;
  /** Changes with every content; opaque (the MD5 in hexadecimal where the store knows it). */
  etag: string;
  /** Milliseconds since the epoch. */
  modifiedAt: number;
}

export interface ObjectInfo extends StoredObject {
  contentType: string;
}

export interface PutLimits {
  /** Exactly this many bytes, or nothing is stored. */
  bytes?: number;
  bytesMin?: number;
  bytesMax?: number;
  /** MD5 that the content must have, in base64 as in the header Content-MD5 (RFC 1864). */
  md5?: string;
}

export interface LinkOptions {
  /** Seconds; absent: a link that lasts. */
  expires?: number;
  /** Who will use the link: another node of the product, or a client outside. */
  audience: "node" | "client";
}

export interface UploadRequest extends ObjectRef {
  /** Exact size. */
  bytes?: number;
  /** As in `PutLimits`. */
  md5?: string;
}

/** Objects that a browser form may store. */
export interface FormRequest {
  bucket: string;
  /** Keys must begin with it and a slash. */
  dir: string;
  bytesMax: number;
  /** Seconds. */
  expires: number;
}

/** Where a form is posted, and its fields; `key` (within the folder) and, at last, `file` are the client's. */
export interface PostForm {
  url: string;
  fields: Record<string, string>;
}

export interface ReadOptions {
  /** First byte, from 0. */
  start?: number;
  /** Last byte, inclusive. */
  end?: number;
  /** Only this content; another one answers OBJECT_CHANGED. */
  etag?: string;
}

export interface ListQuery {
  bucket: string;
  prefix: string;
  /** One character. Keys that hold it after the prefix are rolled up into one folder each; empty: every key. */
  delimiter: string;
  /** `next` of the page before. */
  token?: string;
  limit: number;
}

export interface ListPage {
  /** In the order of their UTF-8 bytes. */
  objects: StoredObject[];
  folders: string[];
  /** Opaque; absent on the last page. */
  next?: string;
}

/**
 * Where objects live. An object is seen whole or not at all: neither a crash nor a broken-off stream leaves a
 * part of one behind. Every driver passes `test/support/object-store.suite.ts`.
 */
export interface ObjectStore {
  /** Makes the bucket unless it is there. */
  ensureBucket(bucket: string): Promise<void>;
  /** Stores the stream; resolves when it is durable. An object of that key is replaced at that moment. */
  put(
    ref: ObjectRef & { contentType: string },
    source: AsyncIterable<Uint8Array | string>,
    limits?: PutLimits,
  ): Promise<ObjectInfo>;
  /** @throws AppError OBJECT_NOT_FOUND before the stream is handed out. */
  read(ref: ObjectRef, options?: ReadOptions): Promise<NodeJS.ReadableStream>;
  stat(ref: ObjectRef): Promise<ObjectInfo>;
  /** What is not there counts as removed. */
  remove(ref: ObjectRef): Promise<void>;
  removePrefix(bucket: string, prefix: string): Promise<number>;
  /** @throws AppError BUCKET_NOT_FOUND */
  list(query: ListQuery): Promise<ListPage>;
  /** Address at which clients read the object from the store itself; absent: through the gateway. */
  readUrl?(ref: ObjectRef, options: LinkOptions): Promise<string | undefined>;
  /** Address that takes exactly the object by PUT at the store itself; absent: through the gateway. */
  uploadUrl?(
    request: UploadRequest,
    options: LinkOptions & { expires: number },
  ): Promise<string | undefined>;
  /** A signed form (policy version 4) that the store itself takes; absent: through the gateway. */
  postForm?(request: FormRequest): Promise<PostForm>;
  /** Puts right what crashes and absences have left; repeated as long as the store is open. */
  upkeep?(bucket: string, nowMs: number): Promise<void>;
  close(): Promise<void>;
}

/** A folder is an empty object whose key ends in a slash, as in every S3 client. */
export const folderContentType = "application/x-directory";

/** Passes chunks on and refuses, before the end, what breaks a limit: the store then commits nothing. */
export async function* withinLimits(
  source: AsyncIterable<Uint8Array | string>,
  limits: PutLimits = {},
): AsyncGenerator<Uint8Array> {
  const { bytes, bytesMin = bytes ?? 0, bytesMax = bytes ?? Number.POSITIVE_INFINITY } = limits;
  const hash = limits.md5 === undefined ? undefined : createHash("md5");
  let seen = 0;
  for await (const chunk of source) {
    const data = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
    seen += data.byteLength;
    if (seen > bytesMax) throw new AppError("PAYLOAD_TOO_LARGE", { limit: `${bytesMax} bytes` });
    hash?.update(data);
    yield data;
  }
  if (seen < bytesMin)
    throw new AppError("UPLOAD_REJECTED", {
      reason: `the content ended after ${seen} bytes; at least ${bytesMin} were announced or required`,
    });
  if (hash && hash.digest("base64") !== limits.md5)
    throw new AppError("UPLOAD_REJECTED", { reason: "the content has not the announced MD5" });
}

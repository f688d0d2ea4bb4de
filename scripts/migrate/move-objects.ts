import { createHash } from "node:crypto";
import { asAppError } from "../../lib/errors.ts";
import type { DiskStore } from "../../services/storage/disk-store.ts";
import type { ObjectInfo, ObjectRef, ObjectStore } from "../../services/storage/object-store.ts";
import { Comparison } from "./comparison.ts";
import { canonical } from "./likeness.plan.ts";
import { moveLimits } from "./limits.ts";
import { MoveError } from "./move-error.ts";
import type { MoveWork } from "./move-work.ts";
import type { ProgressFile } from "./progress.ts";
import type { Compared } from "./summary.plan.ts";

export interface ObjectWork extends MoveWork {
  /** `carry` puts what the target has not; `compare` changes nothing. */
  mode: "carry" | "compare";
  /** Objects in the bucket. */
  total: number;
  /** Absent: every object is read. */
  file?: ProgressFile;
}

interface HowOne {
  mode: ObjectWork["mode"];
  /** An earlier run has compared it byte by byte. */
  isKnown: boolean;
  /** Told of each piece on its way to the target. */
  sent(bytes: number): void;
}

type Outcome = { target: object | undefined; source: object; why?: string };

async function* keysOf(store: ObjectStore, bucket: string): AsyncGenerator<string> {
  let token: string | undefined;
  do {
    const page = await store.list({
      bucket,
      prefix: "",
      delimiter: "",
      token,
      limit: moveLimits.objectsPerPage,
    });
    for (const { key } of page.objects) yield key;
    token = page.next;
  } while (token !== undefined);
}

/** SHA-256 of a content, in bounded memory. A line that breaks while it is read is tried again. */
async function hashOf(store: ObjectStore, ref: ObjectRef): Promise<string> {
  for (let tries = 1; ; tries += 1) {
    const content = await store.read(ref);
    const hash = createHash("sha256");
    try {
      for await (const chunk of content) hash.update(chunk as Uint8Array);
      return hash.digest("hex");
    } catch (error) {
      if (tries < moveLimits.readTriesMax) continue;
      throw new MoveError(
        `${ref.bucket}/${ref.key} cannot be read (${(error as Error).message}). The same command goes on where this one ended`,
      );
    }
  }
}

async function found(store: ObjectStore, ref: ObjectRef): Promise<ObjectInfo | undefined> {
  try {
    return await store.stat(ref);
  } catch (error) {
    const type = asAppError(error)?.type;
    if (type === "OBJECT_NOT_FOUND" || type === "BUCKET_NOT_FOUND") return undefined;
    throw error;
  }
}

const likeness = ({ key, bytes, contentType }: ObjectInfo, sha256: string) => ({
  key,
  bytes,
  contentType,
  sha256,
});

/** Of one bucket every object, some at a time, taken stock of in the order of their keys. */
export async function moveBucket(
  source: DiskStore,
  target: ObjectStore,
  bucket: string,
  work: ObjectWork,
): Promise<Compared> {
  const { signal, show, mode, total, file } = work;
  const comparison = new Comparison(`objects in ${bucket}`);
  if (mode === "carry") await target.ensureBucket(bucket);
  const known = await knownUpTo(source, bucket, file);
  const seen = createHash("sha256");
  let isWhole = true;
  let sentBytes = 0;
  const tell = () =>
    show(`objects in ${bucket}`, comparison.count, total, Math.max(sentBytes, comparison.bytes));
  const sent = (bytes: number) => {
    sentBytes += bytes;
    tell();
  };
  const take = async ({ info, outcome }: { info: ObjectInfo; outcome: Promise<Outcome> }) => {
    const { source: ours, target: theirs, why } = await outcome;
    const isSame = theirs !== undefined && canonical(ours) === canonical(theirs);
    comparison.add(`${bucket}/${info.key}`, ours, theirs);
    comparison.addBytes(info.bytes);
    if (why !== undefined) comparison.differs(`${bucket}/${info.key}: ${why}`);
    isWhole &&= isSame;
    seen.update(identity(info));
    // Behind the first that differs nothing counts as done: the next run looks at it again.
    if (
      isWhole &&
      file &&
      !(known && Buffer.compare(Buffer.from(info.key), Buffer.from(known)) < 0)
    ) {
      file.progress.buckets[bucket] = { after: info.key, listed: seen.copy().digest("hex") };
      await file.saveSometimes();
    }
    tell();
  };
  const window: { info: ObjectInfo; outcome: Promise<Outcome> }[] = [];
  try {
    for await (const key of keysOf(source, bucket)) {
      signal.throwIfAborted();
      const info = await source.stat({ bucket, key });
      const isKnown =
        known !== undefined && Buffer.compare(Buffer.from(key), Buffer.from(known)) <= 0;
      const outcome = one(source, target, info, { mode, isKnown, sent });
      // Whoever takes it hears of it; until then a failure must not end the process.
      outcome.catch(() => undefined);
      window.push({ info, outcome });
      if (window.length >= moveLimits.objectsAtOnce) await take(window.shift()!);
    }
    while (window.length > 0) await take(window.shift()!);
  } finally {
    // What is under way ends before its stores close.
    await Promise.allSettled(window.map(({ outcome }) => outcome));
    await file?.save();
  }
  return comparison.result(await totalOf(target, bucket));
}

const identity = ({ key, etag, contentType }: ObjectInfo) =>
  `${canonical([key, etag, contentType])}\n`;

/** The key up to which an earlier run compared every byte, if the source still lists the same up to there. */
async function knownUpTo(
  source: DiskStore,
  bucket: string,
  file: ProgressFile | undefined,
): Promise<string | undefined> {
  const before = file?.progress.buckets[bucket];
  if (!before) return undefined;
  const seen = createHash("sha256");
  for await (const key of keysOf(source, bucket)) {
    if (Buffer.compare(Buffer.from(key), Buffer.from(before.after)) > 0) break;
    seen.update(identity(await source.stat({ bucket, key })));
  }
  return seen.digest("hex") === before.listed ? before.after : undefined;
}

async function totalOf(target: ObjectStore, bucket: string): Promise<number> {
  let total = 0;
  try {
    for await (const _ of keysOf(target, bucket)) total += 1;
  } catch (error) {
    if (asAppError(error)?.type !== "BUCKET_NOT_FOUND") throw error;
  }
  return total;
}

/** Carries one object where it is missing, then reads it back. What only this object suffers from is told, not thrown. */
async function one(
  source: DiskStore,
  target: ObjectStore,
  info: ObjectInfo,
  how: HowOne,
): Promise<Outcome> {
  try {
    return await carried(source, target, info, how);
  } catch (error) {
    if (!isAboutThisObject(error)) throw error;
    return { source: listed(info), target: undefined, why: (error as Error).message };
  }
}

async function carried(
  source: DiskStore,
  target: ObjectStore,
  info: ObjectInfo,
  { mode, isKnown, sent }: HowOne,
): Promise<Outcome> {
  const { bucket, key, contentType, bytes, etag } = info;
  const ref = { bucket, key };
  let there = await found(target, ref);
  // An earlier run has compared its bytes; a store shows an object whole or not at all.
  if (isKnown && there && there.bytes === bytes && there.contentType === contentType)
    return { source: listed(info), target: listed(info) };
  if (!there && mode === "carry") {
    // A file that is no longer what was stored is not carried: its MD5 is the object's tag.
    const md5 = Buffer.from(etag, "hex").toString("base64");
    const content = (await source.read(ref)) as AsyncIterable<Uint8Array>;
    await target.put({ ...ref, contentType }, telling(content, sent), { bytes, md5 });
    there = await found(target, ref);
  }
  const sha256 = await hashOf(source, ref);
  return {
    source: likeness(info, sha256),
    target: there && likeness(there, await hashOf(target, ref)),
  };
}

/** What the source says of an object whose bytes are not read. */
const listed = (info: ObjectInfo) => likeness(info, `md5 ${info.etag}`);

/** Refused by the server or by our own check, or its file has gone. A server or disk that is away or full stops the move. */
function isAboutThisObject(error: unknown): boolean {
  const type = asAppError(error)?.type ?? (error as NodeJS.ErrnoException).code;
  return ["STORAGE_FAILED", "UPLOAD_REJECTED", "PAYLOAD_TOO_LARGE", "ENOENT"].includes(type ?? "");
}

async function* telling(content: AsyncIterable<Uint8Array>, sent: HowOne["sent"]) {
  for await (const chunk of content) {
    sent(chunk.byteLength);
    yield chunk;
  }
}

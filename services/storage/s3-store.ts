import { Readable } from "node:stream";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  S3Client,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { AppError } from "../../lib/errors.ts";
import { storageLimits } from "./config.ts";
import type {
  ListPage,
  ListQuery,
  ObjectInfo,
  ObjectRef,
  ObjectStore,
  PutLimits,
  ReadOptions,
} from "./object-store.ts";
import { withinLimits } from "./object-store.ts";
import { keyPath } from "./signed-link.ts";

export interface S3Settings {
  endpoint: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Public address of `publicBucket`, where it has one. */
  publicUrl?: string;
  publicBucket?: string;
}

interface S3Failure {
  name?: string;
  message?: string;
  code?: string;
  $metadata?: { httpStatusCode?: number };
}

const unquoted = (etag: string | undefined) => (etag ?? "").replace(/^"|"$/g, "");

/** What an S3 server or the way to it says, in our words. `key` is missing where the call is about a bucket. */
function translate(error: unknown, bucket: string, key?: string): unknown {
  if (error instanceof AppError) return error;
  const { name, message, code, $metadata } = error as S3Failure;
  const status = $metadata?.httpStatusCode;
  if (name === "NoSuchBucket") return new AppError("BUCKET_NOT_FOUND", { bucket });
  if (name === "NoSuchKey" || name === "NotFound" || status === 404)
    return key === undefined
      ? new AppError("BUCKET_NOT_FOUND", { bucket })
      : new AppError("OBJECT_NOT_FOUND", { bucket, key });
  if (name === "PreconditionFailed" || status === 412)
    return new AppError("OBJECT_CHANGED", { bucket, key });
  if (code === "ENOSPC" || name === "XMinioStorageFull" || status === 507)
    return new AppError("DISK_FULL", { where: "the object storage server" }, error);
  const cause = [name, code, message].filter(Boolean).join(" ");
  return new AppError("STORAGE_FAILED", { reason: cause || "the server gave no reason" }, error);
}

const isAbsence = (error: unknown) =>
  error instanceof AppError &&
  (error.type === "OBJECT_NOT_FOUND" || error.type === "BUCKET_NOT_FOUND");

/** Objects on any S3 server, addressed by path so that a server needs no name of its own per bucket. */
export class S3Store implements ObjectStore {
  readonly #client: S3Client;
  readonly #settings: S3Settings;

  constructor(settings: S3Settings) {
    this.#settings = settings;
    this.#client = new S3Client({
      endpoint: settings.endpoint,
      region: settings.region,
      credentials: {
        accessKeyId: settings.accessKeyId,
        secretAccessKey: settings.secretAccessKey,
      },
      forcePathStyle: true,
      // Trailing checksums are an extension that many S3 servers do not understand.
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
      maxAttempts: 3,
    });
  }

  async ensureBucket(bucket: string): Promise<void> {
    try {
      await this.#client.send(new HeadBucketCommand({ Bucket: bucket }));
    } catch (error) {
      const known = translate(error, bucket);
      if (!(known instanceof AppError) || known.type !== "BUCKET_NOT_FOUND") throw known;
      try {
        await this.#client.send(new CreateBucketCommand({ Bucket: bucket }));
      } catch (failure) {
        // Another node was faster.
        if ((failure as S3Failure).name !== "BucketAlreadyOwnedByYou")
          throw translate(failure, bucket);
      }
    }
  }

  async put(
    { bucket, key, contentType }: ObjectRef & { contentType: string },
    source: AsyncIterable<Uint8Array | string>,
    limits?: PutLimits,
  ): Promise<ObjectInfo> {
    let bytes = 0;
    async function* counted() {
      for await (const chunk of withinLimits(source, limits)) {
        bytes += chunk.byteLength;
        yield chunk;
      }
    }
    try {
      const done = await new Upload({
        client: this.#client,
        params: {
          Bucket: bucket,
          Key: key,
          ContentType: contentType,
          Body: Readable.from(counted(), { objectMode: false }),
        },
        partSize: storageLimits.s3PartBytes,
        queueSize: storageLimits.s3PartsAtOnce,
        // Parts of a broken-off upload would stay, unseen and paid for.
        leavePartsOnError: false,
      }).done();
      return {
        bucket,
        key,
        bytes,
        contentType,
        etag: unquoted(done.ETag),
        modifiedAt: Date.now(),
      };
    } catch (error) {
      throw translate(error, bucket);
    }
  }

  async read(ref: ObjectRef, options: ReadOptions = {}): Promise<NodeJS.ReadableStream> {
    const { start, end, etag } = options;
    const ranged = start !== undefined || end !== undefined;
    try {
      const answer = await this.#client.send(
        new GetObjectCommand({
          Bucket: ref.bucket,
          Key: ref.key,
          Range: ranged ? `bytes=${start ?? 0}-${end ?? ""}` : undefined,
          IfMatch: etag === undefined ? undefined : `"${etag}"`,
        }),
      );
      return answer.Body as Readable;
    } catch (error) {
      throw translate(error, ref.bucket, ref.key);
    }
  }

  async stat(ref: ObjectRef): Promise<ObjectInfo> {
    try {
      const head = await this.#client.send(
        new HeadObjectCommand({ Bucket: ref.bucket, Key: ref.key }),
      );
      return {
        ...ref,
        bytes: head.ContentLength ?? 0,
        contentType: head.ContentType ?? "application/octet-stream",
        etag: unquoted(head.ETag),
        modifiedAt: head.LastModified?.getTime() ?? 0,
      };
    } catch (error) {
      throw translate(error, ref.bucket, ref.key);
    }
  }

  async remove({ bucket, key }: ObjectRef): Promise<void> {
    try {
      await this.#client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }));
    } catch (error) {
      const known = translate(error, bucket, key);
      if (!isAbsence(known)) throw known;
    }
  }

  async removePrefix(bucket: string, prefix: string): Promise<number> {
    let removed = 0;
    for (;;) {
      // Always the first page: what was on it is gone by then.
      const { objects } = await this.list({
        bucket,
        prefix,
        delimiter: "",
        limit: storageLimits.removeBatch,
      }).catch((error) => {
        if (isAbsence(error)) return { objects: [] };
        throw error;
      });
      if (objects.length === 0) return removed;
      const { Errors } = await this.#client
        .send(
          new DeleteObjectsCommand({
            Bucket: bucket,
            Delete: { Objects: objects.map(({ key }) => ({ Key: key })), Quiet: true },
          }),
        )
        .catch((error) => {
          throw translate(error, bucket);
        });
      const failed = Errors?.[0];
      if (failed)
        throw new AppError("STORAGE_FAILED", {
          reason: `${failed.Key}: ${failed.Code} ${failed.Message}`,
        });
      removed += objects.length;
    }
  }

  async list({ bucket, prefix, delimiter, token, limit }: ListQuery): Promise<ListPage> {
    try {
      const page = await this.#client.send(
        new ListObjectsV2Command({
          Bucket: bucket,
          Prefix: prefix || undefined,
          Delimiter: delimiter || undefined,
          ContinuationToken: token,
          MaxKeys: limit,
        }),
      );
      return {
        objects: (page.Contents ?? []).map((object) => ({
          bucket,
          key: object.Key ?? "",
          bytes: object.Size ?? 0,
          etag: unquoted(object.ETag),
          modifiedAt: object.LastModified?.getTime() ?? 0,
        })),
        folders: (page.CommonPrefixes ?? []).map((folder) => folder.Prefix ?? ""),
        next: page.IsTruncated ? page.NextContinuationToken : undefined,
      };
    } catch (error) {
      throw translate(error, bucket);
    }
  }

  async readUrl(ref: ObjectRef, expiresSeconds?: number): Promise<string | undefined> {
    const { publicUrl, publicBucket } = this.#settings;
    if (expiresSeconds !== undefined)
      return getSignedUrl(
        this.#client,
        new GetObjectCommand({ Bucket: ref.bucket, Key: ref.key }),
        { expiresIn: expiresSeconds },
      );
    // A link of the server's own cannot last: without a public address the gateway serves it.
    if (!publicUrl || publicBucket !== ref.bucket) return undefined;
    return `${publicUrl.replace(/\/+$/, "")}/${keyPath(ref.key)}`;
  }

  async close(): Promise<void> {
    this.#client.destroy();
  }
}

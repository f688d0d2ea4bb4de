import { Readable } from "node:stream";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { createPresignedPost } from "@aws-sdk/s3-presigned-post";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { AppError } from "../../lib/errors.ts";
import { storageLimits } from "./config.ts";
import type {
  FormRequest,
  LinkOptions,
  ListPage,
  ListQuery,
  ObjectInfo,
  ObjectRef,
  ObjectStore,
  PostForm,
  PutLimits,
  ReadOptions,
  UploadRequest,
} from "./object-store.ts";
import { withinLimits } from "./object-store.ts";
import { type S3Failure, type S3Settings, s3Client, translateS3 } from "./s3-client.ts";
import { endStaleUploads } from "./s3-uploads.ts";
import { keyPath } from "./signed-link.ts";

const unquoted = (etag: string | undefined) => (etag ?? "").replace(/^"|"$/g, "");

const isAbsence = (error: unknown) =>
  error instanceof AppError &&
  (error.type === "OBJECT_NOT_FOUND" || error.type === "BUCKET_NOT_FOUND");

/** Objects on any S3 server. */
export class S3Store implements ObjectStore {
  readonly #client: S3Client;
  /** Signs links for clients outside, who may reach the server under another name than we do. */
  readonly #publicClient: S3Client;
  readonly #settings: S3Settings;

  constructor(settings: S3Settings) {
    this.#settings = settings;
    this.#client = s3Client(settings);
    this.#publicClient = s3Client(settings, settings.publicEndpoint);
  }

  async ensureBucket(bucket: string): Promise<void> {
    try {
      await this.#client.send(new HeadBucketCommand({ Bucket: bucket }));
    } catch (error) {
      const known = translateS3(error, bucket);
      if (!(known instanceof AppError) || known.type !== "BUCKET_NOT_FOUND") throw known;
      try {
        await this.#client.send(new CreateBucketCommand({ Bucket: bucket }));
      } catch (failure) {
        // Another node was faster.
        if ((failure as S3Failure).name !== "BucketAlreadyOwnedByYou")
          throw translateS3(failure, bucket);
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
      throw translateS3(error, bucket);
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
      throw translateS3(error, ref.bucket, ref.key);
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
      throw translateS3(error, ref.bucket, ref.key);
    }
  }

  async remove({ bucket, key }: ObjectRef): Promise<void> {
    try {
      await this.#client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }));
    } catch (error) {
      const known = translateS3(error, bucket, key);
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
          throw translateS3(error, bucket);
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
      throw translateS3(error, bucket);
    }
  }

  async readUrl(ref: ObjectRef, { expires, audience }: LinkOptions): Promise<string | undefined> {
    const { publicUrl, publicBucket } = this.#settings;
    if (expires !== undefined)
      return getSignedUrl(
        this.#signer(audience),
        new GetObjectCommand({ Bucket: ref.bucket, Key: ref.key }),
        { expiresIn: expires },
      );
    // A link of the server's own cannot last: without a public address the gateway serves it.
    if (!publicUrl || publicBucket !== ref.bucket) return undefined;
    return `${publicUrl.replace(/\/+$/, "")}/${keyPath(ref.key)}`;
  }

  async uploadUrl(
    { bucket, key, bytes, md5 }: UploadRequest,
    { expires, audience }: LinkOptions & { expires: number },
  ): Promise<string | undefined> {
    // Only an exact size can be signed, and one request carries no more than this.
    if (bytes === undefined || bytes > storageLimits.s3PutBytesMax) return undefined;
    const command = new PutObjectCommand({
      Bucket: bucket,
      Key: key,
      ContentLength: bytes,
      ContentMD5: md5,
    });
    return getSignedUrl(this.#signer(audience), command, { expiresIn: expires });
  }

  async postForm(request: FormRequest): Promise<PostForm> {
    const { url, fields } = await createPresignedPost(this.#publicClient, {
      Bucket: request.bucket,
      // Makes the policy hold keys to the folder. Not all servers put the file's name in, so the client says its key.
      Key: `${request.dir}/\u0024{filename}`,
      Conditions: [["content-length-range", 0, request.bytesMax]],
      Expires: request.expires,
    });
    delete fields["key"];
    return { url, fields };
  }

  /** Makes the bucket where it is missing and ends uploads that nobody goes on with. */
  async upkeep(bucket: string, nowMs: number): Promise<void> {
    await this.ensureBucket(bucket);
    await this.endStaleUploads(bucket, storageLimits.s3UploadIdleMs, nowMs);
  }

  endStaleUploads(bucket: string, idleMs: number, nowMs: number): Promise<number> {
    return endStaleUploads(this.#client, bucket, idleMs, nowMs);
  }

  async close(): Promise<void> {
    this.#client.destroy();
    this.#publicClient.destroy();
  }

  #signer(audience: LinkOptions["audience"]): S3Client {
    return audience === "node" ? this.#client : this.#publicClient;
  }
}

import {
  AbortMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  type MultipartUpload,
  type S3Client,
} from "@aws-sdk/client-s3";
import { type S3Failure, translateS3 } from "./s3-client.ts";

const isGone = (error: unknown) =>
  (error as S3Failure).name === "NoSuchUpload" ||
  (error as S3Failure).$metadata?.httpStatusCode === 404;

/** When the upload last got a part; its beginning, while it has none. */
async function lastSignMs(client: S3Client, bucket: string, upload: MultipartUpload) {
  let latest = upload.Initiated?.getTime() ?? 0;
  let marker: string | undefined;
  do {
    const page = await client.send(
      new ListPartsCommand({
        Bucket: bucket,
        Key: upload.Key,
        UploadId: upload.UploadId,
        PartNumberMarker: marker,
      }),
    );
    for (const { LastModified } of page.Parts ?? [])
      latest = Math.max(latest, LastModified?.getTime() ?? 0);
    marker = page.IsTruncated ? page.NextPartNumberMarker : undefined;
  } while (marker !== undefined);
  return latest;
}

/**
 * Ends multipart uploads that nobody goes on with: a process that was killed leaves its parts behind, unseen
 * and paid for. One that got a part within `idleMs` may be alive, here or on another node.
 * @returns how many were ended.
 */
export async function endStaleUploads(
  client: S3Client,
  bucket: string,
  idleMs: number,
  nowMs: number,
): Promise<number> {
  let ended = 0;
  let keyMarker: string | undefined;
  let idMarker: string | undefined;
  try {
    do {
      const page = await client.send(
        new ListMultipartUploadsCommand({
          Bucket: bucket,
          KeyMarker: keyMarker,
          UploadIdMarker: idMarker,
        }),
      );
      for (const upload of page.Uploads ?? []) {
        try {
          // A young one needs no look at its parts.
          if (nowMs - (upload.Initiated?.getTime() ?? 0) < idleMs) continue;
          if (nowMs - (await lastSignMs(client, bucket, upload)) < idleMs) continue;
          await client.send(
            new AbortMultipartUploadCommand({
              Bucket: bucket,
              Key: upload.Key,
              UploadId: upload.UploadId,
            }),
          );
          ended += 1;
        } catch (error) {
          // Completed or ended by another node meanwhile.
          if (!isGone(error)) throw error;
        }
      }
      [keyMarker, idMarker] = page.IsTruncated
        ? [page.NextKeyMarker, page.NextUploadIdMarker]
        : [undefined, undefined];
    } while (keyMarker !== undefined);
  } catch (error) {
    throw translateS3(error, bucket);
  }
  return ended;
}

import { S3Client } from "@aws-sdk/client-s3";
import { AppError } from "../../lib/errors.ts";
import { storageLimits } from "./config.ts";

export interface S3Settings {
  endpoint: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Whether the bucket's name stands in the path or before the host name. */
  addressing?: "path" | "virtual";
  /** Address under which clients outside reach `endpoint`, for links. */
  publicEndpoint?: string;
  /** Public address of `publicBucket`, where it has one. */
  publicUrl?: string;
  publicBucket?: string;
}

export function s3Client(settings: S3Settings, endpoint = settings.endpoint): S3Client {
  return new S3Client({
    endpoint,
    region: settings.region,
    credentials: {
      accessKeyId: settings.accessKeyId,
      secretAccessKey: settings.secretAccessKey,
    },
    forcePathStyle: settings.addressing !== "virtual",
    // Trailing checksums are an extension that many S3 servers do not understand.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    maxAttempts: storageLimits.s3TriesMax,
    requestHandler: {
      connectionTimeout: storageLimits.s3ConnectMs,
      socketTimeout: storageLimits.s3SilenceMs,
      httpAgent: { keepAlive: true, maxSockets: storageLimits.s3SocketsMax },
      httpsAgent: { keepAlive: true, maxSockets: storageLimits.s3SocketsMax },
    },
  });
}

export interface S3Failure {
  name?: string;
  message?: string;
  code?: string;
  $metadata?: { httpStatusCode?: number };
}

/** What the way to a server says when the server is not there, or not there for us now. */
const unreachable =
  /\b(ECONN(REFUSED|RESET|ABORTED)|E(HOST|NET)UNREACH|ENOTFOUND|EAI_AGAIN|EPIPE|ETIMEDOUT|TimeoutError|SlowDown|socket hang up)\b/;

/** Whether nobody, or nobody who can work at the moment, has answered. The library wraps some errors in its text. */
function isAway({ name, code, message, $metadata }: S3Failure): boolean {
  const status = $metadata?.httpStatusCode;
  if (status !== undefined) return [502, 503, 504].includes(status) || name === "SlowDown";
  return [name, code, message].some((word) => word !== undefined && unreachable.test(word));
}

/** What an S3 server or the way to it says, in our words. `key` is missing where the call is about a bucket. */
export function translateS3(error: unknown, bucket: string, key?: string): unknown {
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
  const cause = [...new Set([name === "Error" ? "" : name, code, message])]
    .filter(Boolean)
    .join(" ");
  if (isAway(error as S3Failure))
    return new AppError(
      "UNAVAILABLE",
      { reason: `the object storage server does not answer (${cause})` },
      error,
    );
  return new AppError("STORAGE_FAILED", { reason: cause || "the server gave no reason" }, error);
}

/** Limits of object storage, once. */
export const storageLimits = {
  /** Longest time that a signed link may be asked for; the S3 protocol allows no more. */
  linkSecondsMax: 7 * 24 * 3600,
  /** Validity of the links in a listing. */
  listedLinkSeconds: 3600,
  /** Default validity of an upload link and of a direct-upload policy (platform document, section 8). */
  uploadSecondsDefault: 3600,
  /** Longest time that the stream of one object may take. */
  transferMs: 4 * 3600 * 1000,
  /** Largest object that a direct upload may store: what one OSS form upload may carry. */
  directUploadBytesMax: 5 * 1024 ** 3,
  /** Most entries that one page of a listing may hold. */
  listMax: 1000,
  listDefault: 100,
  /** Objects that one step of a removal by prefix takes away. */
  removeBatch: 500,
  /** Longest form field beside the file; a policy with its token fits many times. */
  formFieldBytesMax: 64 * 1024,
  formFieldsMax: 40,
  /** Part of a multipart upload to an S3 server: 10,000 of them hold 160 GB. Two are in memory at a time. */
  s3PartBytes: 16 * 1024 * 1024,
  s3PartsAtOnce: 2,
  /** What one request may store at an S3 server. */
  s3PutBytesMax: 5 * 1024 ** 3,
  /** Tries of one request, its first one included. */
  s3TriesMax: 3,
  s3ConnectMs: 3_000,
  /** Longest silence on a connection to the S3 server. */
  s3SilenceMs: 30_000,
  s3SocketsMax: 100,
  /** A multipart upload that got no part for so long is ended, as its process is most likely dead. */
  s3UploadIdleMs: 3600 * 1000,
  /** Look after the bucket: while all is well, and while the server is away. */
  upkeepMs: 60_000,
  upkeepRetryMs: 2_000,
} as const;

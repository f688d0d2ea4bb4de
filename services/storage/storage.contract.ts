import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";
import { storageLimits } from "./config.ts";

export const Bucket = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/,
    "must be a bucket name: 3 to 63 lower-case letters, digits, dashes",
  );
export const ObjectKey = z
  .string()
  .min(1)
  .max(1023)
  .refine(
    (key) =>
      Buffer.byteLength(key) <= 1023 &&
      key.isWellFormed() &&
      !key.startsWith("/") &&
      !/\p{Cc}/u.test(key) &&
      !key.split("/").some((part) => part === "." || part === ".."),
    "must be an object key: at most 1023 bytes, no leading slash, no . or .. parts, no control characters",
  );
/** Becomes a header of the answer, so that nothing may be in it that a header cannot carry. */
const ContentType = z
  .string()
  .max(255)
  .regex(
    /^[\w.+-]+\/[\w.+*-]+ *(;[ -~]*)?$/,
    "must be a media type such as video/mp4, in ASCII letters",
  );
const ObjectRef = { bucket: Bucket, key: ObjectKey };
export const ObjectStat = z.object({
  ...ObjectRef,
  bytes: z.int(),
  contentType: z.string(),
  etag: z.string(),
  modifiedAt: z.int(),
});

/** Where a storage action sends its clients: a signed address. */
const Link = z.object({ url: z.string() });
/** The nodes may reach gateway and object storage by other addresses than clients outside. */
const audience = z
  .enum(["client", "node"])
  .default("client")
  .describe("Who will use the link: a client outside, or a node of the product");
/** RFC 1864: 16 bytes in base64. */
const Md5 = z.string().regex(/^[A-Za-z0-9+/]{22}==$/, "must be an MD5 in base64");
const expires = z.int().min(1).max(storageLimits.linkSecondsMax).describe("Seconds");

/** A source with one of these addresses is an object of ours, to be read from storage and not over the network. */
export const OwnAddresses = z.object({
  bucket: z.string().describe("Bucket of plain keys and of outputs"),
  origins: z.array(z.string()).describe("Gateways, whose object links lead here"),
  bucketUrl: z.string().optional().describe("Public address of the bucket, if it has one"),
  s3: z
    .object({ endpoints: z.array(z.string()), addressing: z.enum(["path", "virtual"]) })
    .optional()
    .describe("The S3 server's own addresses, as in its signed links"),
});
export type OwnAddresses = z.output<typeof OwnAddresses>;

/** Object storage for other services; the routes for clients are contracts of their own beside this one. */
export const storageContract = defineContract({
  name: "storage",
  about: "Object storage, internal",
  actions: {
    put: action({
      summary: "Store the stream of the call",
      input: z.object({
        ...ObjectRef,
        contentType: ContentType.default("application/octet-stream"),
        bytes: z.int().min(0).optional().describe("Exact size, where it is known"),
        bytesMin: z.int().min(0).optional(),
        bytesMax: z.int().min(0).optional(),
        md5: Md5.optional().describe("What the content must have, in base64"),
      }),
      output: ObjectStat,
      errors: ["STORAGE_FAILED", "DISK_FULL", "PAYLOAD_TOO_LARGE", "UPLOAD_REJECTED"],
      timeoutMs: storageLimits.transferMs,
    }),
    read: action({
      summary: "An object, or a range of it, as a stream",
      input: z.object({
        ...ObjectRef,
        start: z.int().min(0).optional(),
        end: z.int().min(0).optional().describe("Inclusive"),
        etag: z.string().optional().describe("Only this content"),
      }),
      output: z.custom<NodeJS.ReadableStream>(),
      errors: ["OBJECT_NOT_FOUND", "OBJECT_CHANGED"],
    }),
    stat: action({
      summary: "Size and type of an object",
      input: z.object(ObjectRef),
      output: ObjectStat,
      errors: ["OBJECT_NOT_FOUND"],
      idempotent: true,
    }),
    remove: action({
      summary: "Delete an object; deleting what is not there is no error",
      input: z.object(ObjectRef),
      output: z.object({}),
      idempotent: true,
    }),
    removePrefix: action({
      summary: "Delete all objects under a prefix",
      input: z.object({ bucket: Bucket, prefix: z.string().min(1).max(1023) }),
      output: z.object({ removed: z.int() }),
      idempotent: true,
    }),
    removeOutputs: action({
      summary: "Delete what attempts of a job have stored, except the one that won",
      input: z.object({
        jobId: z.string().min(1).max(64),
        upTo: z.int().min(1).describe("Attempts after this one are left alone"),
        keep: z.int().min(1).optional().describe("The attempt that won"),
      }),
      output: z.object({ removed: z.int() }),
      idempotent: true,
    }),
    list: action({
      summary: "One page of the objects and folders of a bucket",
      input: z.object({
        bucket: Bucket,
        prefix: z.string().max(1023).default(""),
        delimiter: z.string().max(1).default("/"),
        token: z.string().max(2048).optional().describe("`next` of the page before"),
        limit: z.int().min(1).max(storageLimits.listMax).default(storageLimits.listDefault),
      }),
      output: z.object({
        objects: z.array(ObjectStat.omit({ contentType: true })),
        folders: z.array(z.string()),
        next: z.string().optional(),
      }),
      errors: ["BUCKET_NOT_FOUND"],
      idempotent: true,
    }),
    link: action({
      summary: "Signed link for reading; without expires, a link that lasts",
      input: z.object({ ...ObjectRef, expires: expires.optional(), audience }),
      output: Link,
      idempotent: true,
    }),
    uploadLink: action({
      summary: "Signed link that takes one object by PUT",
      input: z.object({
        ...ObjectRef,
        expires: expires.default(storageLimits.uploadSecondsDefault),
        bytesMax: z.int().min(0).optional(),
        bytes: z.int().min(0).optional().describe("Exact size; the link takes no other"),
        md5: Md5.optional().describe("To be sent as Content-MD5; the link may take no other"),
        audience,
      }),
      output: Link,
      idempotent: true,
    }),
    addresses: action({
      summary: "How addresses of the product's own objects look, and the bucket of its outputs",
      input: z.object({}),
      output: OwnAddresses,
      idempotent: true,
    }),
    admit: action({
      summary: "Check the signature of a link that a client has used",
      input: z.object({
        ...ObjectRef,
        method: z.enum(["GET", "PUT"]),
        expires: z.int().optional(),
        bytesMax: z.int().optional(),
        signature: z.string().max(200).optional(),
      }),
      output: z.object({}),
      errors: ["LINK_REJECTED"],
      idempotent: true,
    }),
    uploadForm: action({
      summary: "Sign a form with which a browser stores objects under one folder",
      input: z.object({
        bucket: Bucket,
        region: z.string(),
        dir: ObjectKey,
        expires,
        bytesMax: z.int().min(0).default(storageLimits.directUploadBytesMax),
      }),
      output: z.object({
        policy: z.string(),
        x_oss_signature_version: z.literal("OSS4-HMAC-SHA256"),
        x_oss_credential: z.string(),
        x_oss_date: z.string(),
        signature: z.string(),
        host: z.string(),
        dir: z.string(),
        security_token: z.string(),
        access_key_id: z.string(),
        expire: z.int(),
      }),
    }),
    postForm: action({
      summary: "A form as plain address and fields, for the S3 server itself where there is one",
      input: z.object({
        bucket: Bucket,
        dir: ObjectKey,
        expires: expires.default(storageLimits.uploadSecondsDefault),
        bytesMax: z.int().min(0).default(storageLimits.directUploadBytesMax),
      }),
      output: z.object({ url: z.string(), fields: z.record(z.string(), z.string()) }),
    }),
    admitForm: action({
      summary: "Check the fields of a form upload; sizes are left to the store",
      input: z.object({ bucket: Bucket, fields: z.record(z.string(), z.string()) }),
      output: z.object({ bytesMin: z.int(), bytesMax: z.int() }),
      errors: ["UPLOAD_REJECTED"],
      idempotent: true,
    }),
  },
});

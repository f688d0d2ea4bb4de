import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";

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
      !key.startsWith("/") &&
      !key.includes("\0") &&
      !key.split("/").some((part) => part === "." || part === ".."),
    "must be an object key: at most 1023 bytes, no leading slash, no . or .. parts",
  );
const ObjectRef = { bucket: Bucket, key: ObjectKey };
export const ObjectStat = z.object({
  ...ObjectRef,
  bytes: z.int(),
  contentType: z.string(),
  etag: z.string(),
  modifiedAt: z.int(),
});

/** Object storage for other services; the routes for clients are contracts of their own beside this one. */
export const storageContract = defineContract({
  name: "storage",
  about: "Object storage, internal",
  actions: {
    put: action({
      summary: "Store the stream of the call",
      input: z.object({
        ...ObjectRef,
        contentType: z.string().default("application/octet-stream"),
        bytes: z.int().optional(),
      }),
      output: ObjectStat,
      errors: ["STORAGE_FAILED", "DISK_FULL"],
    }),
    read: action({
      summary: "An object, or a range of it, as a stream",
      input: z.object({
        ...ObjectRef,
        start: z.int().optional(),
        end: z.int().optional().describe("Inclusive"),
      }),
      output: z.custom<NodeJS.ReadableStream>(),
      errors: ["OBJECT_NOT_FOUND"],
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
      input: z.object({ bucket: Bucket, prefix: z.string().min(1) }),
      output: z.object({ removed: z.int() }),
      idempotent: true,
    }),
    link: action({
      summary: "Signed link for reading; without expires, a link that lasts",
      input: z.object({ ...ObjectRef, expires: z.int().min(1).optional().describe("Seconds") }),
      output: z.object({ url: z.string() }),
      idempotent: true,
    }),
  },
});

import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";
import { storageLimits } from "./config.ts";
import { Bucket, ObjectKey } from "./storage.contract.ts";

/**
 * The vendor's name of a data centre. The embedded store has one place and takes any; an S3 server is asked
 * under its own region (OSS_REGION).
 */
const Region = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{1,31}$/, "must be a region such as cn-shenzhen")
  .default("cn-shenzhen");

/** A folder path; slashes at either end make no difference. */
const Folder = z
  .string()
  .max(512)
  .refine(
    (path) => ObjectKey.safeParse(path.replace(/^\/+|\/+$/g, "")).success,
    "must be a folder path such as clips/raw, without . or .. parts",
  );

const access = ["admin", "agent"] as const;
const errors = ["STORAGE_FAILED"] as const;

/**
 * Object storage for clients (platform document, section 4, admin and common). Wrong parameters answer
 * returnCode 1003; everything that fails after that answers 2000, or 1000 for a direct-upload address.
 */
export const cloudFilesContract = defineContract({
  name: "storage.files",
  about: "Object storage",
  actions: {
    createFolder: action({
      summary: "Create a folder",
      description:
        "Creating one that is there is no error. The embedded store makes the bucket too.",
      rest: "POST /common/cloudvendor-oss/create-folder",
      access,
      input: z.strictObject({ bucket: Bucket, folder_name: Folder, region: Region }),
      output: z.object({ folder_name: z.string() }),
      errors,
      idempotent: true,
    }),
    uploadFile: action({
      summary: "Upload a file",
      description:
        "Either `file_content` as text, or a multipart form with one file; the order of its fields is free. The embedded store makes the bucket where it is missing.",
      rest: "POST /common/cloudvendor-oss/upload-file",
      access,
      body: "multipart",
      input: z.strictObject({
        bucket: Bucket,
        object_key: ObjectKey,
        file_content: z.string().optional(),
        region: Region,
      }),
      output: z.object({ object_key: z.string() }),
      errors,
      idempotent: true,
      timeoutMs: storageLimits.transferMs,
    }),
    deleteFile: action({
      summary: "Delete a file",
      description: "Deleting what is not there is no error.",
      rest: "DELETE /common/cloudvendor-oss/delete-file",
      access,
      input: z.strictObject({ bucket: Bucket, object_key: ObjectKey, region: Region }),
      output: z.object({ object_key: z.string() }),
      errors,
      idempotent: true,
    }),
    listFiles: action({
      summary: "List files and folders",
      description: "One page; pass `next_marker` as `marker` for the next one.",
      rest: "GET /common/cloudvendor-oss/list-files",
      access,
      input: z.strictObject({
        bucket: Bucket,
        prefix: z
          .string()
          .max(1023)
          .default("")
          .describe("Folder to list, with a slash at its end"),
        delimiter: z.string().max(1).default("/").describe("Empty lists all levels"),
        marker: z.string().max(2048).optional(),
        max_keys: z.int().min(1).max(storageLimits.listMax).default(storageLimits.listDefault),
        region: Region,
      }),
      output: z.object({
        bucket: z.string(),
        prefix: z.string(),
        folders: z.array(z.string()),
        files: z.array(
          z.object({
            object_key: z.string(),
            size: z.int().describe("Bytes"),
            etag: z.string(),
            modified: z.int().describe("Unix seconds"),
            url: z.string().describe("Signed link, valid for an hour"),
          }),
        ),
        is_truncated: z.boolean(),
        next_marker: z.string().optional(),
      }),
      errors: ["STORAGE_FAILED", "BUCKET_NOT_FOUND"],
      idempotent: true,
    }),
    directUpload: action({
      summary: "Signed form for uploading straight to the object storage",
      description:
        "POST a multipart form to `host` with the fields key (below `dir`/), policy, x-oss-signature-version, x-oss-credential, x-oss-date, x-oss-signature, x-oss-security-token and, last, file.",
      rest: "POST /admin/cloudvendor/oss/getDirectUploadUrl",
      access,
      input: z.strictObject({
        bucket: Bucket,
        region: Region,
        upload_dir: Folder.default("user-dir"),
        expires: z
          .int()
          .min(1)
          .max(storageLimits.linkSecondsMax)
          .default(storageLimits.uploadSecondsDefault)
          .describe("Seconds"),
      }),
      output: z.object({
        policy: z.string().describe("Base64"),
        x_oss_signature_version: z.literal("OSS4-HMAC-SHA256"),
        x_oss_credential: z.string(),
        x_oss_date: z.string(),
        signature: z.string(),
        host: z.string(),
        dir: z.string(),
        security_token: z.string(),
        access_key_id: z.string(),
        expire: z.int().describe("Unix seconds"),
      }),
      errors: ["DIRECT_UPLOAD_FAILED"],
    }),
  },
});

import { Readable } from "node:stream";
import { AppError, asAppError, errorMessage } from "../../lib/errors.ts";
import { type ActionContext, implementService } from "../../lib/service.ts";
import { cloudFilesContract } from "./cloud-files.contract.ts";
import { storageLimits } from "./config.ts";
import { contentTypeOfKey } from "./content-type-of-key.ts";
import { folderContentType } from "./object-store.ts";

const withoutOuterSlashes = (path: string) => path.replace(/^\/+|\/+$/g, "");

/** The cause in the caller's language, without anything that is not ours to tell. */
function causeOf(error: unknown, language: "zh" | "en"): string {
  const known = asAppError(error);
  if (known) return errorMessage(known.type, known.data, language);
  return error instanceof Error ? error.message : String(error);
}

/** The document gives one code for each group of operations, whatever the cause. */
async function failingAs<T>(
  type: "STORAGE_FAILED" | "DIRECT_UPLOAD_FAILED",
  ctx: Pick<ActionContext<unknown>, "meta">,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new AppError(type, { reason: causeOf(error, ctx.meta.language ?? "zh") }, error);
  }
}

export const cloudFilesService = implementService(cloudFilesContract, {
  dependencies: ["storage"],
  handlers: {
    createFolder: (ctx) =>
      failingAs("STORAGE_FAILED", ctx, async () => {
        const { bucket, folder_name } = ctx.params;
        const key = `${withoutOuterSlashes(folder_name)}/`;
        await ctx.call(
          "storage.put",
          { bucket, key, contentType: folderContentType },
          { stream: Readable.from([]) },
        );
        return { folder_name };
      }),
    async uploadFile(ctx) {
      const { bucket, object_key, file_content } = ctx.params;
      const file = (ctx.stream ?? undefined) as Readable | undefined;
      if ((file === undefined) === (file_content === undefined)) {
        file?.destroy();
        throw new AppError("INVALID_INPUT", {
          reason: `file, file_content: exactly one of the two is needed, ${file ? "both" : "none"} was given`,
        });
      }
      return failingAs("STORAGE_FAILED", ctx, async () => {
        const stream = file ?? Readable.from([Buffer.from(file_content ?? "")]);
        await ctx.call(
          "storage.put",
          { bucket, key: object_key, contentType: contentTypeOfKey(object_key) },
          { stream },
        );
        return { object_key };
      });
    },
    deleteFile: (ctx) =>
      failingAs("STORAGE_FAILED", ctx, async () => {
        const { bucket, object_key } = ctx.params;
        await ctx.call("storage.remove", { bucket, key: object_key });
        return { object_key };
      }),
    async listFiles(ctx) {
      const { bucket, prefix, delimiter, marker, max_keys } = ctx.params;
      const page = await ctx.call("storage.list", {
        bucket,
        prefix,
        delimiter,
        token: marker,
        limit: max_keys,
      });
      // The empty object that makes a folder is the folder itself, not a file in it.
      const files = page.objects.filter(({ key, bytes }) => !(key.endsWith("/") && bytes === 0));
      const links = await Promise.all(
        files.map(({ key }) =>
          ctx.call("storage.link", { bucket, key, expires: storageLimits.listedLinkSeconds }),
        ),
      );
      return {
        bucket,
        prefix,
        folders: page.folders,
        files: files.map((file, index) => ({
          object_key: file.key,
          size: file.bytes,
          etag: file.etag,
          modified: Math.floor(file.modifiedAt / 1000),
          url: links[index]?.url ?? "",
        })),
        is_truncated: page.next !== undefined,
        next_marker: page.next,
      };
    },
    directUpload: (ctx) =>
      failingAs("DIRECT_UPLOAD_FAILED", ctx, () =>
        ctx.call("storage.uploadForm", {
          bucket: ctx.params.bucket,
          region: ctx.params.region,
          dir: withoutOuterSlashes(ctx.params.upload_dir),
          expires: ctx.params.expires,
        }),
      ),
  },
});

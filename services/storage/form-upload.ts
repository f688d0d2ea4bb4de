import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { Busboy } from "@fastify/busboy";
import { AppError } from "../../lib/errors.ts";
import type { RawExchange, RawRoute } from "../gateway/raw-route.ts";
import { storageLimits } from "./config.ts";
import { contentTypeOfKey } from "./content-type-of-key.ts";
import { withBody } from "./request-stream.ts";
import { keyPath } from "./signed-link.ts";

interface FormFile {
  stream: Readable;
  name: string;
  type: string;
}

const rejected = (reason: string) => new AppError("UPLOAD_REJECTED", { reason });

function parserFor(req: IncomingMessage) {
  try {
    return new Busboy({
      headers: { ...req.headers, "content-type": req.headers["content-type"] ?? "" },
      limits: {
        files: 1,
        fields: storageLimits.formFieldsMax,
        fieldNameSize: 100,
        fieldSize: storageLimits.formFieldBytesMax,
        headerPairs: 20,
      },
    });
  } catch (error) {
    throw rejected(`the form cannot be read: ${(error as Error).message}`);
  }
}

/** Hands over the fields that came before the file, and the file itself while it still comes in. */
function readForm<T>(
  req: IncomingMessage,
  body: Readable,
  use: (fields: Record<string, string>, file: FormFile) => Promise<T>,
): Promise<T> {
  const form = parserFor(req);
  const fields: Record<string, string> = Object.create(null);
  return new Promise<T>((resolve, reject) => {
    let stream: Readable | undefined;
    const broken = (reason: string) => {
      const error = rejected(reason);
      stream?.destroy(error);
      reject(error);
    };
    form.on("field", (name, value, nameTruncated, valueTruncated) => {
      if (nameTruncated || valueTruncated) broken(`field ${name.slice(0, 100)} is too long`);
      else fields[name.toLowerCase()] = value;
    });
    form.on("fieldsLimit", () => broken("the form has too many fields"));
    form.on("file", (_field, file, name, _encoding, type) => {
      stream = file;
      // A refusal is answered through the promise; the stream has no other listener by then.
      file.on("error", () => undefined);
      use(fields, { stream: file, name: name ?? "", type }).then(resolve, reject);
    });
    form.on("error", (error) => broken(`the form cannot be read: ${(error as Error).message}`));
    form.on("finish", () => {
      if (!stream) broken("the form has no file");
    });
    body.on("error", (error) => broken(error.message));
    body.pipe(form);
  });
}

/** Stands for the file's own name in a key. Written with an escape, so that it is no template by mistake. */
const FILE_NAME = "\u0024{filename}";

/** Browsers send a path in some cases; the name is what follows the last separator. */
const baseName = (name: string) => name.split(/[\\/]/).at(-1) ?? "";

function typeOf(fields: Record<string, string>, file: FormFile, key: string): string {
  const said = fields["x-oss-content-type"] ?? fields["content-type"];
  if (said) return said.slice(0, 255);
  return file.type && file.type !== "application/octet-stream" ? file.type : contentTypeOfKey(key);
}

async function upload(
  req: IncomingMessage,
  res: ServerResponse,
  { params, host }: RawExchange,
): Promise<void> {
  res.setHeader("Access-Control-Allow-Origin", "*");
  res.setHeader("Access-Control-Expose-Headers", "ETag, Location");
  const bucket = params["bucket"] ?? "";
  const { stored, status } = await withBody(req, (body) =>
    readForm(req, body, async (fields, file) => {
      const key = (fields["key"] ?? "").replaceAll(FILE_NAME, baseName(file.name));
      const grant = await host.call("storage.admitForm", { bucket, fields: { ...fields, key } });
      return {
        status: fields["success_action_status"],
        stored: await host.call(
          "storage.put",
          { bucket, key, contentType: typeOf(fields, file, key), ...grant },
          { stream: file.stream },
        ),
      };
    }),
  );
  res.setHeader("ETag", `"${stored.etag}"`);
  res.setHeader("Location", `/objects/${bucket}/${keyPath(stored.key)}`);
  res.statusCode = status === "200" || status === "201" ? Number(status) : 204;
  res.end();
}

/** What `host` of getDirectUploadUrl points to. The policy in the form is the permission. */
export const formUploadRoutes: readonly RawRoute[] = [
  {
    method: "POST",
    path: "/objects/{bucket}",
    access: "public",
    summary: "Store a file by a signed upload form; answers 204, or success_action_status",
    requestTypes: ["multipart/form-data"],
    handle: upload,
  },
];

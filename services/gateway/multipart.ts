import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Busboy } from "@fastify/busboy";
import { AppError } from "../../lib/errors.ts";
import { gatewayLimits } from "./config.ts";
import { type FieldValue, fieldsOf } from "./request-fields.ts";

export interface SpooledForm {
  fields: Record<string, FieldValue>;
  file?: { path: string; bytes: number; fileName: string; contentType: string };
  /** Deletes the spooled file. Safe to repeat. */
  discard(): Promise<void>;
}

const spoolDir = (dataDir: string) => join(dataDir, "spool");

/**
 * Removes what a killed run left behind. Files that still grow stay: another gateway may use the same
 * directory, and an upload that stands still is given up long before.
 */
export async function clearSpool(dataDir: string): Promise<void> {
  const names = await readdir(spoolDir(dataDir)).catch(() => []);
  for (const name of names) {
    const path = join(spoolDir(dataDir), name);
    const changedMs = await stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => Date.now(),
    );
    if (Date.now() - changedMs > 2 * gatewayLimits.uploadIdleMs) await rm(path, { force: true });
  }
}

/**
 * Reads a multipart form: text fields, and at most one file, which goes to disk. Fields may come after the
 * file, so that the file cannot be handed on before the form has ended.
 * @throws PAYLOAD_TOO_LARGE, INVALID_INPUT, DISK_FULL; nothing is left behind then.
 */
export async function spoolForm(req: IncomingMessage, dataDir: string): Promise<SpooledForm> {
  const path = join(spoolDir(dataDir), randomUUID());
  await mkdir(spoolDir(dataDir), { recursive: true, mode: 0o700 });
  const discard = () => rm(path, { force: true });
  try {
    return { ...(await parse(req, path)), discard };
  } catch (error) {
    await discard();
    if (error instanceof AppError) throw error;
    if ((error as NodeJS.ErrnoException).code === "ENOSPC")
      throw new AppError("DISK_FULL", { where: "DATA_DIR" }, error);
    throw new AppError("INVALID_INPUT", {
      reason: `the multipart form cannot be read: ${(error as Error).message}`,
    });
  }
}

function busboyFor(req: IncomingMessage) {
  try {
    return new Busboy({
      headers: { ...req.headers, "content-type": req.headers["content-type"] ?? "" },
      limits: {
        files: 1,
        fileSize: gatewayLimits.uploadBytes,
        fields: 100,
        fieldNameSize: 200,
        fieldSize: gatewayLimits.bodyBytes,
        headerPairs: 50,
      },
    });
  } catch (error) {
    throw new AppError("INVALID_INPUT", { reason: (error as Error).message });
  }
}

async function parse(
  req: IncomingMessage,
  path: string,
): Promise<Pick<SpooledForm, "fields" | "file">> {
  const form = busboyFor(req);
  const pairs: [string, string][] = [];
  const abandoned = new AbortController();
  let file: SpooledForm["file"];
  let written: Promise<void> | undefined;
  const parsed = new Promise<void>((resolve, reject) => {
    const tooMany = (what: string) => () =>
      reject(new AppError("INVALID_INPUT", { reason: `the form has too many ${what}` }));
    form.on("filesLimit", tooMany("files: send one")).on("fieldsLimit", tooMany("fields"));
    form.on("field", (name, value, nameTruncated, valueTruncated) => {
      if (nameTruncated || valueTruncated)
        reject(
          new AppError("PAYLOAD_TOO_LARGE", {
            limit: `${gatewayLimits.bodyBytes} bytes in field ${name}; send it as a file`,
          }),
        );
      else pairs.push([name, value]);
    });
    form.on("file", (_field, stream, fileName, _encoding, contentType) => {
      const received = { path, bytes: 0, fileName: fileName ?? "", contentType };
      file = received;
      stream.on("data", (chunk: Buffer) => {
        received.bytes += chunk.length;
      });
      stream.on("limit", () =>
        reject(new AppError("PAYLOAD_TOO_LARGE", { limit: `${gatewayLimits.uploadBytes} bytes` })),
      );
      written = pipeline(stream, createWriteStream(path, { mode: 0o600 }), {
        signal: abandoned.signal,
      });
      written.catch(reject);
    });
    form.on("finish", resolve).on("error", reject);
    req.on("error", reject);
    // A request that came in whole is closed too, often before the parser is through with it.
    req.on("close", () => {
      if (!req.complete) reject(new Error("it ended too early"));
    });
  });
  const idle = () => req.destroy(new Error("the upload stood still"));
  req.setTimeout(gatewayLimits.uploadIdleMs, idle);
  try {
    // Not pipeline(): that would close the connection on an error, and the client would get no answer.
    req.pipe(form);
    await parsed;
    await written;
  } catch (error) {
    req.unpipe(form);
    abandoned.abort();
    await written?.catch(() => undefined);
    throw error;
  } finally {
    req.setTimeout(0);
    req.off("timeout", idle);
  }
  return { fields: fieldsOf(pairs, { filter: true, where: "form" }), file };
}

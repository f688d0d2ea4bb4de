import type { IncomingMessage } from "node:http";
import { type ParseError, parseTree } from "jsonc-parser";
import { AppError } from "../../lib/errors.ts";
import { gatewayLimits } from "./config.ts";
import { checkName, type FieldValue, fieldsOf } from "./request-fields.ts";

export interface ContentType {
  /** Lower case, without parameters; "" when there is none. */
  type: string;
  charset: string | undefined;
}

const noContent: ContentType = { type: "", charset: undefined };
/** By far the most bodies say just this. */
const plainJson: ContentType = { type: "application/json", charset: undefined };

export function contentTypeOf(req: IncomingMessage): ContentType {
  const header = req.headers["content-type"];
  if (header === undefined) return noContent;
  if (header === "application/json") return plainJson;
  const [type = "", ...parameters] = header.split(";");
  const charset = parameters
    .map((parameter) => /^\s*charset\s*=\s*"?([^"\s]+)"?\s*$/i.exec(parameter)?.[1])
    .find(Boolean);
  return { type: type.trim().toLowerCase(), charset: charset?.toLowerCase() };
}

export const isJson = ({ type }: ContentType): boolean =>
  type === "application/json" || /^application\/[\w.-]+\+json$/.test(type);

const isForm = ({ type }: ContentType) => type === "application/x-www-form-urlencoded";

const hasBody = (req: IncomingMessage) =>
  req.headers["transfer-encoding"] !== undefined || Number(req.headers["content-length"] ?? 0) > 0;

/** Reads a small body whole. A body over the limit is refused as soon as that is known, without reading it. */
function readAll(req: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const tooLarge = () => new AppError("PAYLOAD_TOO_LARGE", { limit: `${limitBytes} bytes` });
  if (Number(req.headers["content-length"] ?? 0) > limitBytes) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      req.off("data", onData).off("end", onEnd).off("error", onGone).off("close", onGone);
      finish();
    };
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limitBytes) settle(() => reject(tooLarge()));
      else chunks.push(chunk);
    };
    const onEnd = () => settle(() => resolve(Buffer.concat(chunks)));
    const onGone = () =>
      settle(() => reject(new AppError("INVALID_INPUT", { reason: "the body ended too early" })));
    const timer = setTimeout(
      () =>
        settle(() =>
          reject(
            new AppError("INVALID_INPUT", {
              reason: `the body did not arrive within ${gatewayLimits.bodyMs / 1000} s`,
            }),
          ),
        ),
      gatewayLimits.bodyMs,
    );
    req.on("data", onData).on("end", onEnd).on("error", onGone).on("close", onGone);
  });
}

/** Where a broken text breaks, in the words that editors use. V8 itself tells it for some mistakes only. */
function jsonPlace(text: string): string {
  const errors: ParseError[] = [];
  try {
    parseTree(text, errors, { disallowComments: true });
  } catch {
    return "nested too deep to tell where";
  }
  const before = text.slice(0, errors[0]?.offset ?? text.length).split("\n");
  return `it breaks at line ${before.length}, column ${before.at(-1)!.length + 1}`;
}

/** Refuses what later code would stumble over: endless nesting and names that reach into prototypes. */
function checkTree(root: object): void {
  const open: { value: object; depth: number }[] = [{ value: root, depth: 1 }];
  for (let next = open.pop(); next; next = open.pop()) {
    if (next.depth > gatewayLimits.jsonDepthMax)
      throw new AppError("INVALID_INPUT", {
        reason: `the body is nested deeper than ${gatewayLimits.jsonDepthMax} levels`,
      });
    const isList = Array.isArray(next.value);
    for (const [name, value] of Object.entries(next.value)) {
      if (!isList) checkName(name, "body");
      if (typeof value === "object" && value !== null) open.push({ value, depth: next.depth + 1 });
    }
  }
}

export function parseJsonBody(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new AppError("INVALID_INPUT", { reason: `the body is not JSON: ${jsonPlace(text)}` });
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    const kind = body === null ? "null" : Array.isArray(body) ? "a list" : `a ${typeof body}`;
    throw new AppError("INVALID_INPUT", { reason: `the body must be a JSON object, not ${kind}` });
  }
  checkTree(body);
  return body as Record<string, unknown>;
}

function decode(bytes: Buffer, charset: string | undefined): string {
  if (charset !== undefined && charset !== "utf-8" && charset !== "utf8" && charset !== "us-ascii")
    throw new AppError("UNSUPPORTED_MEDIA_TYPE", { type: `charset ${charset}`, allowed: "utf-8" });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new AppError("INVALID_INPUT", { reason: "the body is not valid UTF-8" });
  }
}

/** The fields of a JSON or form body; none is an empty object. Anything else is refused by its type. */
export async function readBody(
  req: IncomingMessage,
  { multipart }: { multipart: boolean },
): Promise<Record<string, unknown | FieldValue>> {
  const content = contentTypeOf(req);
  if (!hasBody(req)) return {};
  const encoding = req.headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity")
    throw new AppError("UNSUPPORTED_MEDIA_TYPE", {
      type: `encoding ${encoding}`,
      allowed: "identity",
    });
  if (!isJson(content) && !isForm(content))
    throw new AppError("UNSUPPORTED_MEDIA_TYPE", {
      type: content.type || "(none)",
      allowed: [
        "application/json",
        "application/x-www-form-urlencoded",
        ...(multipart ? ["multipart/form-data"] : []),
      ],
    });
  const text = decode(await readAll(req, gatewayLimits.bodyBytes), content.charset);
  return isJson(content)
    ? parseJsonBody(text)
    : fieldsOf(new URLSearchParams(text), { filter: true, where: "body" });
}

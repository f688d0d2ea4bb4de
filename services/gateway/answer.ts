import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ActionContract } from "../../lib/contract.ts";
import {
  AppError,
  asAppError,
  type ErrorType,
  errorMessage,
  errorTable,
  type Language,
} from "../../lib/errors.ts";

/** Chinese unless the client prefers English (platform document, section 2). */
export function languageOf(acceptLanguage: string | undefined): Language {
  const ranked = (acceptLanguage ?? "")
    .split(",")
    .map((part) => {
      const [tag = "", ...options] = part.trim().toLowerCase().split(";");
      const quality = options.map((option) => /^\s*q=([\d.]+)/.exec(option)?.[1]).find(Boolean);
      return { tag, quality: quality === undefined ? 1 : Number(quality) };
    })
    .filter(({ tag, quality }) => quality > 0 && /^(zh|en)\b/.test(tag))
    .sort((a, b) => b.quality - a.quality);
  return ranked[0]?.tag.startsWith("en") ? "en" : "zh";
}

const seconds = () => Math.floor(Date.now() / 1000);

/** Puts a result into the form of its contract. */
export function success(
  contract: ActionContract,
  req: IncomingMessage,
  res: ServerResponse,
  data: unknown,
): unknown {
  res.statusCode = contract.successStatus ?? 200;
  if (contract.form === "plain") return data;
  const message = languageOf(req.headers["accept-language"]) === "en" ? "success" : "成功";
  return { timestamp: seconds(), returnCode: 0, message, responseData: data ?? {} };
}

/** Moleculer's and the body parser's own errors in terms of our table. */
function translate(error: unknown): { type: ErrorType; data: Record<string, unknown> } {
  const known = asAppError(error);
  if (known) return known;
  const { type, code, status, limit, message, data } = (error ?? {}) as Record<string, unknown> & {
    data?: { action?: string };
  };
  if (type === "entity.too.large")
    return { type: "PAYLOAD_TOO_LARGE", data: { limit: `${limit} bytes` } };
  if (
    typeof type === "string" &&
    (type.startsWith("entity.") || type.startsWith("request.") || type.startsWith("encoding."))
  )
    return { type: "INVALID_INPUT", data: { reason: `the body cannot be read: ${message}` } };
  if (type === "SERVICE_NOT_FOUND" || type === "SERVICE_NOT_AVAILABLE" || code === 503)
    return {
      type: "UNAVAILABLE",
      data: { reason: `no running node serves ${data?.action ?? "this"}` },
    };
  if (type === "REQUEST_TIMEOUT")
    return { type: "TIMEOUT", data: { seconds: 30, what: data?.action ?? "the action" } };
  if (typeof status === "number" && status >= 400 && status < 500)
    return { type: "INVALID_INPUT", data: { reason: String(message) } };
  return { type: "INTERNAL", data: { reference: randomUUID() } };
}

/** Answers with an error; what is not ours shows a reference only, never its own message or data. */
export function failure(
  contract: ActionContract | undefined,
  req: IncomingMessage,
  res: ServerResponse,
  error: unknown,
): void {
  const { type, data } = translate(error);
  if (type === "INTERNAL") console.error(`[gateway] ${data["reference"]}`, error);
  const entry = errorTable[type];
  if (res.headersSent) {
    res.destroy();
    return;
  }
  const message = errorMessage(type, data, languageOf(req.headers["accept-language"]));
  const body =
    contract?.form === "plain"
      ? { error: { type, message, data, retry: entry.retry } }
      : { timestamp: seconds(), returnCode: entry.returnCode, message, error: { type, data } };
  res.writeHead(entry.status, { "Content-Type": "application/json; charset=utf-8" });
  res.end(JSON.stringify(body));
}


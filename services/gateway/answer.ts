import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "moleculer";
import type { ActionContract } from "../../lib/contract.ts";
import {
  asAppError,
  type ErrorData,
  type ErrorType,
  errorMessage,
  errorTable,
  type Language,
  localData,
} from "../../lib/errors.ts";

type Form = ActionContract["form"];

/** Chinese unless the client prefers English (platform document, section 2). */
export function languageOf(acceptLanguage: string | undefined): Language {
  if (acceptLanguage === undefined) return "zh";
  const ranked = (acceptLanguage ?? "")
    .slice(0, 1000)
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

/** Header fields that a request has earned on its way: they go out with its answer, whichever that is. */
export interface AnswerHeaders {
  $headers: Record<string, string>;
}

/** Sends one JSON answer; for HEAD the same head without the body. */
export function sendJson(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  // Text, not bytes: Node sends head and text in one write, but head and bytes as two pieces, at twice the cost.
  const text = JSON.stringify(body);
  res.writeHead(status, {
    ...(req as Partial<AnswerHeaders>).$headers,
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(text),
    "Cache-Control": "no-store",
    ...headers,
  });
  res.end(req.method === "HEAD" ? undefined : text);
}

/** Answers with a result, in the form of its contract. */
export function success(
  contract: ActionContract,
  req: IncomingMessage,
  res: ServerResponse,
  data: unknown,
): void {
  const status = contract.successStatus ?? 200;
  if (contract.form === "plain") {
    sendJson(req, res, status, data ?? {});
    return;
  }
  const message = languageOf(req.headers["accept-language"]) === "en" ? "success" : "成功";
  sendJson(req, res, status, {
    timestamp: seconds(),
    returnCode: 0,
    message,
    responseData: data ?? {},
  });
}

/** Moleculer's own errors in terms of our table. What is not known says nothing of itself. */
function translate(error: unknown): { type: ErrorType; data: ErrorData } {
  const known = asAppError(error);
  if (known) return known;
  const { type, code, data } = (error ?? {}) as {
    type?: unknown;
    code?: unknown;
    data?: { action?: string };
  };
  const action = data?.action;
  if (type === "SERVICE_NOT_FOUND" || type === "SERVICE_NOT_AVAILABLE" || code === 503)
    return {
      type: "UNAVAILABLE",
      data: {
        reason: {
          en: `no running node serves ${action ?? "this"}`,
          zh: `没有运行中的节点提供 ${action ?? "该功能"}`,
        },
      },
    };
  if (type === "REQUEST_TIMEOUT" || type === "REQUEST_SKIPPED")
    return { type: "TIMEOUT", data: { seconds: 30, what: action ?? "the action" } };
  return { type: "INTERNAL", data: { reference: randomUUID() } };
}

/** An unread rest of the request is let run dry, so that the client gets to read the answer; not for ever. */
const REST_MS = 5_000;

/** Answers with an error; what is not ours shows a reference only, never its own message or data. */
export function failure(
  form: Form,
  req: IncomingMessage,
  res: ServerResponse,
  error: unknown,
  logger: Logger,
): void {
  const { type, data } = translate(error);
  if (type === "INTERNAL")
    logger.error(`${req.method} ${req.url?.split("?")[0]} failed (${data["reference"]})`, error);
  if (res.headersSent) {
    res.destroy();
    return;
  }
  // A client that has gone sends no rest to wait for.
  if (!req.complete && !req.destroyed) {
    const cut = setTimeout(() => req.destroy(), REST_MS);
    req.once("close", () => clearTimeout(cut));
    req.resume();
  }
  const entry = errorTable[type];
  const language = languageOf(req.headers["accept-language"]);
  const message = errorMessage(type, data, language);
  const shown = localData(data, language);
  const body =
    form === "plain"
      ? { error: { type, message, data: shown, retry: entry.retry } }
      : {
          timestamp: seconds(),
          returnCode: entry.returnCode,
          message,
          error: { type, data: shown },
        };
  sendJson(req, res, entry.status, body, {
    ...(type === "METHOD_NOT_ALLOWED" ? { Allow: [data["allowed"]].flat().join(", ") } : {}),
    ...(type === "UNAUTHENTICATED" ? { "WWW-Authenticate": "Bearer" } : {}),
    ...(type === "RATE_LIMITED" ? { "Retry-After": String(data["seconds"]) } : {}),
  });
}

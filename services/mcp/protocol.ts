import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { hostHeaderValidation, originValidation, toNodeHandler } from "@modelcontextprotocol/node";
import {
  type AuthInfo,
  createMcpHandler,
  ProtocolError,
  ProtocolErrorCode,
  type RequestId,
  Server,
  type ServerContext,
  type Tool as WireTool,
} from "@modelcontextprotocol/server";
import type { ServiceBroker } from "moleculer";
import { asAppError, errorMessage } from "../../lib/errors.ts";
import type { RawExchange, RawRoute } from "../gateway/raw-route.ts";
import { progressListeners, signals } from "./call-signals.ts";
import { mcpLimits } from "./config.ts";
import { servedHosts } from "./host-check.ts";

const instructions = [
  "Make short videos: write or generate a storyboard, dub it, render it, look at it.",
  "generate_storyboard turns an idea or a script into scenes and a timeline; batch_dubbing speaks lines; compose_timeline_ffmpeg renders a timeline and returns a job_id; jobs_wait follows it; preview_job shows the result as an image.",
  "The timeline format, with a complete example, is the resource reelmesh://guide/timeline.",
].join(" ");

/** Errors of ours in the words of the protocol; anything else shows a reference and is logged under it. */
function protocolError(error: unknown, { host }: RawExchange): Error {
  const known = asAppError(error);
  if (!known) {
    const reference = randomUUID();
    host.logger.error(`MCP request failed (${reference})`, error);
    return new ProtocolError(
      ProtocolErrorCode.InternalError,
      errorMessage("INTERNAL", { reference }, "en"),
    );
  }
  return new ProtocolError(
    known.type === "NOT_FOUND" || known.type === "INVALID_INPUT"
      ? ProtocolErrorCode.InvalidParams
      : ProtocolErrorCode.InternalError,
    errorMessage(known.type, known.data, "en"),
    { type: known.type },
  );
}

const guardFor =
  (exchange: RawExchange) =>
  async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw protocolError(error, exchange);
    }
  };

const SESSION = "mcp-session-id";

const sessionOf = (request: Request | undefined): string | undefined =>
  /^[\w-]{8,64}$/.exec(request?.headers.get(SESSION) ?? "")?.[0];

/**
 * Under which name the mesh knows a call. A client of an older revision cancels with a message of its own
 * that may reach another gateway: there the name comes from its session and its number for the request.
 */
const callIdOf = ({ actor }: RawExchange, session: string | undefined, id: RequestId): string =>
  session === undefined ? randomUUID() : `${actor?.realm}:${actor?.id}:${session}:${id}`;

/** Calls a tool somewhere in the mesh, with progress on the way and a word when the client gives up. */
async function callTool(
  { call, host, signal: gone }: RawExchange,
  callId: string,
  params: { name: string; arguments?: Record<string, unknown> },
  { mcpReq }: ServerContext,
) {
  const token = mcpReq._meta?.progressToken;
  const listeners = progressListeners(host.broker);
  if (token !== undefined)
    listeners.set(callId, ({ progress, total, message }) => {
      // A client that has gone cannot be told anything; that is no failure of the tool.
      mcpReq
        .notify({
          method: "notifications/progress",
          params: { progressToken: token, progress, total, message },
        })
        .catch(() => undefined);
    });
  const cancel = () => void host.broker.broadcast(signals.cancelled, { callId });
  // Newer clients cancel by closing the stream, older ones by a message or by going away.
  const givenUp = AbortSignal.any([mcpReq.signal, gone]);
  givenUp.addEventListener("abort", cancel, { once: true });
  try {
    const { content, structuredContent, isError } = await call("mcp.call", params, {
      timeout: mcpLimits.callMs,
      meta: { mcpCallId: callId },
    });
    return { content, structuredContent, isError };
  } finally {
    givenUp.removeEventListener("abort", cancel);
    listeners.delete(callId);
  }
}

/** One server per request: nothing is kept between requests, so that any gateway can take the next one. */
function serverFor(exchange: RawExchange, session: string | undefined): Server {
  const { call, host } = exchange;
  const guarded = guardFor(exchange);
  const server = new Server(
    { name: "reelmesh", title: "Reelmesh video production", version: "0.1.0" },
    { capabilities: { tools: {}, resources: {}, prompts: {} }, instructions },
  );
  server.setRequestHandler("tools/list", () =>
    guarded(async () => ({ tools: (await call("mcp.tools", {})).tools as WireTool[] })),
  );
  server.setRequestHandler("tools/call", ({ params }, ctx) =>
    guarded(() =>
      callTool(
        exchange,
        callIdOf(exchange, session, ctx.mcpReq.id),
        { name: params.name, arguments: params.arguments },
        ctx,
      ),
    ),
  );
  if (session !== undefined)
    server.setNotificationHandler("notifications/cancelled", ({ params: { requestId } }) => {
      if (requestId === undefined) return;
      const callId = callIdOf(exchange, session, requestId);
      void host.broker.broadcast(signals.cancelled, { callId });
    });
  server.setRequestHandler("resources/list", () =>
    guarded(async () => {
      const listed = await call("mcp.resources", {});
      return { resources: "resources" in listed ? listed.resources : [] };
    }),
  );
  server.setRequestHandler("resources/templates/list", () =>
    guarded(async () => {
      const listed = await call("mcp.resources", {});
      return { resourceTemplates: "resourceTemplates" in listed ? listed.resourceTemplates : [] };
    }),
  );
  server.setRequestHandler("resources/read", ({ params }) =>
    guarded(async () => {
      const read = await call("mcp.resources", { uri: params.uri });
      return { contents: "contents" in read ? read.contents : [] };
    }),
  );
  server.setRequestHandler("prompts/list", () =>
    guarded(async () => {
      const listed = await call("mcp.prompts", {});
      return { prompts: "prompts" in listed ? listed.prompts : [] };
    }),
  );
  server.setRequestHandler("prompts/get", ({ params }) =>
    guarded(async () => {
      const found = await call("mcp.prompts", { ...params.arguments, name: params.name } as never);
      if (!("messages" in found)) throw new Error("a prompt without messages");
      return found;
    }),
  );
  return server;
}

interface Edge {
  allowed: (req: IncomingMessage, res: ServerResponse) => boolean;
  handle: ReturnType<typeof toNodeHandler>;
}

const edges = new WeakMap<ServiceBroker, Edge>();

function edgeOf({ host }: RawExchange): Edge {
  let edge = edges.get(host.broker);
  if (!edge) {
    const hosts = servedHosts(host.config);
    const rightHost = hostHeaderValidation(hosts);
    const rightOrigin = originValidation(hosts);
    const report = (error: Error) => host.logger.warn(`MCP: ${error.message}`);
    const handler = createMcpHandler(
      ({ authInfo, era, requestInfo }) =>
        serverFor(
          authInfo!.extra!["exchange"] as RawExchange,
          era === "legacy" ? sessionOf(requestInfo) : undefined,
        ),
      { onerror: report, maxRequestBodySize: mcpLimits.requestBytes },
    );
    edge = {
      allowed: (req, res) => rightHost(req, res) && rightOrigin(req, res),
      handle: toNodeHandler(handler, {
        onerror: report,
        maxRequestBodySize: mcpLimits.requestBytes,
      }),
    };
    edges.set(host.broker, edge);
  }
  return edge;
}

async function serve(req: IncomingMessage, res: ServerResponse, exchange: RawExchange) {
  const edge = edgeOf(exchange);
  if (!edge.allowed(req, res)) return;
  const auth: AuthInfo = {
    token: "",
    clientId: `${exchange.actor!.realm}:${exchange.actor!.id}`,
    scopes: [],
    extra: { exchange },
  };
  // An older client's first message: it will name this with every later one. Nothing is kept under it here.
  if (req.headers["mcp-protocol-version"] === undefined && req.headers[SESSION] === undefined)
    res.setHeader(SESSION, randomUUID());
  // The gateway has checked the token; it is not handed on.
  await edge.handle(Object.assign(req, { auth }) as never, res as never);
}

/** The protocol itself, Streamable HTTP: revision 2026-07-28 and, without sessions, the older ones. */
export const protocolRoutes: readonly RawRoute[] = (["POST", "GET", "DELETE"] as const).map(
  (method) => ({
    method,
    path: "/mcp",
    access: ["agent", "admin"],
    summary:
      method === "POST"
        ? "Model Context Protocol over Streamable HTTP"
        : "Sessions of the protocol: answered with 405, since none are kept",
    requestTypes: method === "POST" ? ["application/json"] : undefined,
    handle: serve,
  }),
);

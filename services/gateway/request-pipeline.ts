import { createReadStream } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context, Logger, ServiceBroker } from "moleculer";
import { mayCall } from "../../lib/access.middleware.ts";
import type { Config } from "../../lib/config.ts";
import type { Actor, Realm, Route } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import { type Meta, systemCall, type TypedCall } from "../../lib/service.ts";
import { telemetryOf } from "../../lib/telemetry/node-telemetry.ts";
import { traceCallsOf, traceparentOf } from "../../lib/telemetry/telemetry.middleware.ts";
import { type AnswerHeaders, languageOf, success } from "./answer.ts";
import {
  clientAddressOf,
  readTrustedProxies,
  type TrustedProxies,
} from "./client-address.policy.ts";
import { coerceQuery } from "./coerce-query.ts";
import type { EdgeServer } from "./edge-server.ts";
import { spoolForm } from "./multipart.ts";
import { clientKeyOf, rateLimitHeaders } from "./rate-limit.policy.ts";
import type { RateLimit } from "./rate-limit.ts";
import type { RawExchange, RawRoute } from "./raw-route.ts";
import { contentTypeOf, isJson, readBody } from "./request-body.ts";
import { fieldsOf } from "./request-fields.ts";
import { patternOf, type Router, type Target } from "./router.ts";

/** What hangs on a request on its way. */
export type EdgeRequest = IncomingMessage &
  AnswerHeaders & {
    $ctx: Context<unknown, Meta>;
    $target?: Target;
    /** Decoded parts of the path. */
    $pathParams: Record<string, string>;
    originalUrl: string;
  };

export interface PipelineParts {
  config: Config;
  router: Router;
  edge: EdgeServer;
  broker: ServiceBroker;
  logger: Logger;
  /** Absent where clients are not limited. */
  limit?: RateLimit;
}

const HOST_HEADER = /^[\w.-]+(:\d{1,5})?$|^\[[\da-f:]+\](:\d{1,5})?$/i;

const bearer = (req: IncomingMessage) =>
  /^Bearer +(\S+) *$/i.exec(req.headers.authorization ?? "")?.[1];

export const pathOf = (url: string): string => url.split("?", 1)[0]!;
const queryOf = (url: string) =>
  new URLSearchParams(url.includes("?") ? url.slice(url.indexOf("?") + 1) : "");
const nothing: Record<string, never> = Object.freeze({});

/** The action checks again, where it runs; here it saves reading a stranger's body. */
function admit(access: "public" | readonly Realm[], actor: Actor | undefined): void {
  const verdict = mayCall(access, actor);
  if (!verdict.allowed) throw new AppError(verdict.type, { reason: verdict.reason });
}

/** Of connections, as long as they are open. */
const addresses = new WeakMap<object, string>();

/** The way of one request after its route is known: who acts, may they, with what, and the answer. */
export class RequestPipeline {
  readonly #parts: PipelineParts;
  readonly #proxies: TrustedProxies;
  readonly #systemCall: TypedCall;
  constructor(parts: PipelineParts) {
    this.#parts = parts;
    this.#systemCall = systemCall(parts.broker);
    this.#proxies = readTrustedProxies(parts.config.TRUSTED_PROXIES);
  }

  async run(req: EdgeRequest, res: ServerResponse, target: Target): Promise<void> {
    req.$target = target;
    const { meta } = req.$ctx;
    meta.language = languageOf(req.headers["accept-language"]);
    meta.clientAddress = this.#clientAddress(req);
    meta.baseUrl = this.#baseUrl(req);
    meta["idempotencyKey"] = req.headers["idempotency-key"]?.toString();
    this.#trace(req, res, target);
    const actor = target.raw?.selfGuarded ? undefined : await this.#identify(req);
    meta.actor = actor;
    if (target.raw) return this.#handleRaw(req, res, target.raw, actor);
    const { spec } = target;
    admit(spec.contract.access ?? [], actor);
    const isForm = contentTypeOf(req).type === "multipart/form-data";
    if (spec.contract.body === "multipart" && isForm) return this.#callWithForm(req, res, spec);
    const params = await this.#paramsOf(req, spec);
    success(spec.contract, req, res, await req.$ctx.call(spec.action, params));
  }

  /** Behind no proxy the address is that of the connection, which brings many requests. */
  #clientAddress(req: IncomingMessage): string {
    const { socket } = req;
    const forwarded = this.#proxies.length > 0 ? req.headers["x-forwarded-for"] : undefined;
    if (forwarded !== undefined)
      return clientAddressOf(socket.remoteAddress, forwarded.toString(), this.#proxies);
    let address = addresses.get(socket);
    if (address === undefined) {
      address = clientAddressOf(socket.remoteAddress, undefined, this.#proxies);
      addresses.set(socket, address);
    }
    return address;
  }

  /** Begins the request's span, where one is recorded; what the request calls hangs under it. */
  #trace(req: EdgeRequest, res: ServerResponse, target: Target): void {
    const { tracing } = telemetryOf(this.#parts.config);
    if (!tracing || target.raw?.selfGuarded) return;
    const parent = tracing.admit(req.headers["traceparent"]);
    if (parent === undefined) return;
    const route = patternOf(target);
    const span = tracing.begin({
      name: `${req.method} ${route}`,
      parent: parent === "new" ? undefined : parent,
      kind: "server",
      attributes: { "http.request.method": req.method, "http.route": route },
    });
    traceCallsOf(req.$ctx, span);
    res.once("close", () => {
      span.set({ "http.response.status_code": res.statusCode });
      span.end(res.writableFinished && res.statusCode < 500 ? undefined : new Error("no answer"));
    });
  }

  /** A token that nobody knows is refused even where anonymous clients are served, and counts for its address. */
  async #identify(req: EdgeRequest): Promise<Actor | undefined> {
    const token = bearer(req);
    const actor = token === undefined ? undefined : await this.#verify(req, token);
    await this.#limit(req, clientKeyOf(actor, req.$ctx.meta.clientAddress ?? "unknown"));
    if (token !== undefined && !actor)
      throw new AppError("UNAUTHENTICATED", {
        reason: { en: "the bearer token is not valid", zh: "令牌无效或已过期" },
      });
    return actor;
  }

  /** @throws RATE_LIMITED when the client has sent more than its share. */
  async #limit(req: EdgeRequest, client: string | undefined): Promise<void> {
    const { limit } = this.#parts;
    if (!limit || client === undefined) return;
    const counted = limit.count(client);
    const allowance = counted instanceof Promise ? await counted : counted;
    Object.assign(req.$headers, rateLimitHeaders(allowance));
    if (allowance.exceeded)
      throw new AppError("RATE_LIMITED", { seconds: Math.ceil(allowance.resetMs / 1000) });
  }

  async #verify(req: EdgeRequest, token: string): Promise<Actor | undefined> {
    // Not through the request's own context: its meta would be merged back, and with it the system's identity.
    const traceparent = traceparentOf(req.$ctx);
    const actor = await this.#systemCall(
      "auth.verify",
      { token },
      traceparent === undefined ? undefined : { headers: { traceparent } },
    );
    return actor ?? undefined;
  }

  #baseUrl(req: IncomingMessage): string {
    const { config, edge } = this.#parts;
    if (config.PUBLIC_URL) return config.PUBLIC_URL.replace(/\/+$/, "");
    // Only a gateway on all networks must ask the client under which name it was reached.
    const host = req.headers.host ?? "";
    const wildcard = config.HOST === "0.0.0.0" || config.HOST === "::";
    return wildcard && HOST_HEADER.test(host) ? `http://${host}` : edge.url;
  }

  /** Parameters of an action: query, then body, then path, each later one winning. */
  async #paramsOf(req: EdgeRequest, { contract }: Route, form?: Record<string, unknown>) {
    const filter = !isJson(contentTypeOf(req));
    const url = req.originalUrl;
    const query = url.includes("?") ? fieldsOf(queryOf(url), { filter, where: "query" }) : nothing;
    const takesBody = req.method !== "GET" && req.method !== "HEAD";
    const multipart = contract.body === "multipart";
    const body = form ?? (takesBody ? await readBody(req, { multipart }) : nothing);
    return {
      ...coerceQuery(contract.input, query),
      // Values of a form are text, like those of a query; JSON says itself what is a number.
      ...(filter ? coerceQuery(contract.input, body) : body),
      ...coerceQuery(contract.input, req.$pathParams),
    };
  }

  /** A form with a file: spooled first, since fields may follow the file, then streamed to the action. */
  async #callWithForm(req: EdgeRequest, res: ServerResponse, spec: Route): Promise<void> {
    const form = await spoolForm(req, this.#parts.config.DATA_DIR);
    let data: unknown;
    try {
      const params = await this.#paramsOf(req, spec, form.fields);
      const stream = form.file ? createReadStream(form.file.path) : undefined;
      stream?.on("error", (error) => this.#parts.logger.error("spooled upload", error));
      data = await req.$ctx.call(spec.action, params, { timeout: 0, stream } as never);
    } finally {
      await form.discard();
    }
    success(spec.contract, req, res, data);
  }

  async #handleRaw(
    req: EdgeRequest,
    res: ServerResponse,
    raw: RawRoute,
    actor: Actor | undefined,
  ): Promise<void> {
    admit(raw.access, actor);
    for (const [name, value] of Object.entries(req.$headers)) res.setHeader(name, value);
    req.$headers = {};
    const { config, broker, logger, router, edge } = this.#parts;
    const gone = new AbortController();
    res.once("close", () => gone.abort());
    const ctx = req.$ctx;
    const call = (name: string, params: object, options: object) =>
      ctx.call(name, params, options as never);
    const exchange: RawExchange = {
      call: call as unknown as TypedCall,
      actor,
      host: { config, broker, logger, call: this.#systemCall },
      // Resolved again: a slash at the end is cut off to find the route, and may be part of an object's name.
      params: router.resolve(req.method ?? "", pathOf(req.originalUrl)).params,
      query: queryOf(req.originalUrl),
      language: ctx.meta.language ?? "zh",
      baseUrl: ctx.meta.baseUrl ?? edge.url,
      signal: AbortSignal.any([gone.signal, edge.stopping]),
    };
    await raw.handle(req, res, exchange);
    if (!res.writableEnded && !res.destroyed)
      await new Promise<void>((resolve) => res.once("close", resolve));
  }
}

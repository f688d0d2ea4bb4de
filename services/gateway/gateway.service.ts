import { createReadStream } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context, Service, ServiceSchema } from "moleculer";
import ApiGateway from "moleculer-web";
import { mayCall } from "../../lib/access.middleware.ts";
import { type Actor, type Route, routesOf } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import { type Meta, type NodeEnv, systemCall, type TypedCall } from "../../lib/service.ts";
import { contracts } from "../contracts.ts";
import { failure, languageOf, success } from "./answer.ts";
import { coerceQuery } from "./coerce-query.ts";
import { docsRoutes } from "./docs-routes.ts";
import { EdgeServer } from "./edge-server.ts";
import { clearSpool, spoolForm } from "./multipart.ts";
import { openApiDocument } from "./openapi.ts";
import type { RawExchange, RawRoute } from "./raw-route.ts";
import { rawRoutes } from "./raw-routes.ts";
import { contentTypeOf, isJson, readBody } from "./request-body.ts";
import { fieldsOf } from "./request-fields.ts";
import { formOf, Router, type Target } from "./router.ts";

/** What moleculer-web hangs on a request on its way. */
type Request = IncomingMessage & {
  $ctx: Context<unknown, Meta>;
  $route: unknown;
  $target?: Target;
  $params: { params: Record<string, string> } | Record<string, unknown>;
  originalUrl: string;
};
type Gateway = Service & { routes: unknown[] };

const REQUEST_ID = /^[\w.:-]{1,100}$/;
const HOST_HEADER = /^[\w.-]+(:\d{1,5})?$|^\[[\da-f:]+\](:\d{1,5})?$/i;

const bearer = (req: IncomingMessage) =>
  /^Bearer +(\S+) *$/i.exec(req.headers.authorization ?? "")?.[1];

const headerText = (value: string | string[] | undefined) => (value ? String(value) : undefined);

const pathOf = (url: string) => url.split("?", 1)[0]!;
const queryOf = (url: string) =>
  new URLSearchParams(url.includes("?") ? url.slice(url.indexOf("?") + 1) : "");

/**
 * HTTP edge on moleculer-web: routes from the contracts and the raw routes, identity from the bearer token,
 * answers in the form each document gives. moleculer-web's pipeline carries the request; routing, bodies,
 * errors and the listening socket are ours (its own: linear scan, 404 for a wrong method, leaking errors).
 */
export function gatewaySchema({ config }: NodeEnv, given?: EdgeServer): ServiceSchema {
  const routes = routesOf(contracts);
  const raw: readonly RawRoute[] = [
    ...rawRoutes,
    ...docsRoutes(() => openApiDocument(routes, raw)),
  ];
  const router = new Router(routes, raw);
  let edge = given;

  /** Who acts; a token that nobody knows is refused even where anonymous clients are served. */
  const identify = async (gateway: Gateway, req: Request): Promise<Actor | undefined> => {
    const token = bearer(req);
    if (token === undefined) return undefined;
    // Not through the request's own context: its meta would be merged back, and with it the system's identity.
    const actor = await systemCall(gateway.broker)("auth.verify", { token });
    if (!actor)
      throw new AppError("UNAUTHENTICATED", {
        reason: { en: "the bearer token is not valid", zh: "令牌无效或已过期" },
      });
    return actor;
  };

  const baseUrl = (req: IncomingMessage): string => {
    if (config.PUBLIC_URL) return config.PUBLIC_URL.replace(/\/+$/, "");
    // Only a gateway on all networks must ask the client under which name it was reached.
    const host = req.headers.host ?? "";
    const wildcard = config.HOST === "0.0.0.0" || config.HOST === "::";
    return wildcard && HOST_HEADER.test(host) ? `http://${host}` : (edge?.url ?? "");
  };

  /** Parameters of an action: query, then body, then path, each later one winning. */
  const paramsOf = async (
    req: Request,
    { contract }: Route,
    pathParams: Record<string, string>,
    form?: Record<string, unknown>,
  ) => {
    const query = fieldsOf(queryOf(req.originalUrl), {
      filter: !isJson(contentTypeOf(req)),
      where: "query",
    });
    const takesBody = req.method !== "GET" && req.method !== "HEAD";
    const multipart = contract.body === "multipart";
    const body = form ?? (takesBody ? await readBody(req, { multipart }) : {});
    const isText = form !== undefined || !isJson(contentTypeOf(req));
    return {
      ...coerceQuery(contract.input, query),
      ...(isText ? coerceQuery(contract.input, body) : body),
      ...coerceQuery(contract.input, pathParams),
    };
  };

  /** A form with a file: spooled first, since fields may follow the file, then streamed to the action. */
  const callWithForm = async (
    gateway: Gateway,
    req: Request,
    res: ServerResponse,
    spec: Route,
    pathParams: Record<string, string>,
  ) => {
    const form = await spoolForm(req, config.DATA_DIR);
    try {
      const params = await paramsOf(req, spec, pathParams, form.fields);
      const stream = form.file ? createReadStream(form.file.path) : undefined;
      stream?.on("error", (error) => gateway.logger.error("spooled upload", error));
      const data = await req.$ctx.call(spec.action, params, { timeout: 0, stream } as never);
      success(spec.contract, req, res, data);
    } finally {
      await form.discard();
    }
  };

  const handleRaw = async (
    gateway: Gateway,
    req: Request,
    res: ServerResponse,
    raw: RawRoute,
    actor: Actor | undefined,
  ) => {
    const verdict = mayCall(raw.access, actor);
    if (!verdict.allowed) throw new AppError(verdict.type, { reason: verdict.reason });
    const gone = new AbortController();
    res.once("close", () => gone.abort());
    const { broker, logger } = gateway;
    const ctx = req.$ctx;
    const exchange: RawExchange = {
      call: ((name: string, params: object, options: object) =>
        ctx.call(name, params, options as never)) as unknown as TypedCall,
      actor,
      host: { config, broker, logger, call: systemCall(broker) },
      // Resolved again: moleculer-web cuts a slash at the end, which is part of an object's name.
      params: router.resolve(req.method ?? "", pathOf(req.originalUrl)).params,
      query: queryOf(req.originalUrl),
      language: ctx.meta.language ?? "zh",
      baseUrl: baseUrl(req),
      signal: AbortSignal.any([gone.signal, ...(edge ? [edge.stopping] : [])]),
    };
    await raw.handle(req, res, exchange);
    if (!res.writableEnded && !res.destroyed)
      await new Promise<void>((resolve) => res.once("close", resolve));
  };

  const methods: Record<string, (this: Gateway, ...args: never[]) => unknown> = {
    /** Replaces a scan over all routes; throws 404 and 405. */
    resolveAlias(path: string, method: string) {
      const { target, params } = router.resolve(method, path);
      const { spec } = target;
      const multipart = spec?.contract.body === "multipart";
      const alias = {
        target,
        route: this.routes[0],
        action: spec?.action,
        toString: () => `${method} ${path}`,
        handler: target.raw || multipart ? () => undefined : undefined,
      };
      return { alias, params };
    },

    parseQueryString(req: Request) {
      return { url: pathOf(req.url ?? "/"), query: {} };
    },

    async aliasHandler(
      this: Gateway,
      req: Request,
      res: ServerResponse,
      alias: { target: Target },
    ): Promise<boolean> {
      req.$target = alias.target;
      const { meta } = req.$ctx;
      meta.language = languageOf(req.headers["accept-language"]);
      meta.clientAddress = req.socket.remoteAddress;
      meta.baseUrl = baseUrl(req);
      meta["idempotencyKey"] = headerText(req.headers["idempotency-key"]);
      const actor = await identify(this, req);
      meta.actor = actor;
      const { spec, raw } = alias.target;
      if (raw) {
        await handleRaw(this, req, res, raw, actor);
        return true;
      }
      // The action checks again, where it runs; here it saves reading a stranger's body.
      const verdict = mayCall(spec.contract.access ?? [], actor);
      if (!verdict.allowed) throw new AppError(verdict.type, { reason: verdict.reason });
      const pathParams = (req.$params as { params: Record<string, string> }).params;
      if (spec.contract.body === "multipart" && contentTypeOf(req).type === "multipart/form-data") {
        await callWithForm(this, req, res, spec, pathParams);
        return true;
      }
      const params = await paramsOf(req, spec, pathParams);
      success(spec.contract, req, res, await req.$ctx.call(spec.action, params));
      return true;
    },

    errorHandler(req: Request, res: ServerResponse, error: unknown) {
      failure(formOf(req.$target), req, res, error, this.logger);
    },
  };

  return {
    name: "gateway",
    mixins: [ApiGateway as unknown as ServiceSchema],
    settings: {
      server: false,
      logRequest: null,
      logRequestParams: null,
      logResponse: null,
      logRouteRegistration: null,
      routes: [
        {
          path: "/",
          mappingPolicy: "restrict",
          mergeParams: false,
          logging: false,
          bodyParsers: false,
        },
      ],
    } as ServiceSchema["settings"],
    // moleculer-web's own actions change routes at run time; nothing here needs that.
    actions: { listAliases: false, addRoute: false, removeRoute: false } as never,
    methods: methods as never,
    async started() {
      edge ??= await EdgeServer.listen(config);
      await clearSpool(config.DATA_DIR);
      edge.serve((req, res) => {
        const id = req.headers["x-request-id"];
        if (typeof id !== "string" || !REQUEST_ID.test(id)) delete req.headers["x-request-id"];
        delete req.headers["x-correlation-id"];
        if (req.method === "OPTIONS") {
          const allowed = router.allowed(pathOf(req.url ?? "/"));
          res.writeHead(allowed.length > 0 ? 204 : 404, { Allow: allowed.join(", ") });
          res.end();
          return;
        }
        this["httpHandler"](req, res);
      });
    },
    async stopped() {
      await edge?.close();
    },
  };
}

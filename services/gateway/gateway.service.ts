import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger, Service, ServiceSchema } from "moleculer";
import ApiGateway from "moleculer-web";
import { routesOf } from "../../lib/contract.ts";
import type { NodeEnv } from "../../lib/service.ts";
import type { Metrics } from "../../lib/telemetry/metrics.ts";
import { telemetryOf } from "../../lib/telemetry/node-telemetry.ts";
import { contracts } from "../contracts.ts";
import { failure } from "./answer.ts";
import { docsRoutes } from "./docs-routes.ts";
import { EdgeServer } from "./edge-server.ts";
import { clearSpool } from "./multipart.ts";
import { openApiDocument } from "./openapi.ts";
import { RateLimit } from "./rate-limit.ts";
import type { RawRoute } from "./raw-route.ts";
import { rawRoutes } from "./raw-routes.ts";
import { type EdgeRequest, pathOf, RequestPipeline } from "./request-pipeline.ts";
import { formOf, patternOf, Router, type Target } from "./router.ts";

type Gateway = Service & { routes: unknown[]; pipeline: RequestPipeline };

const REQUEST_ID = /^[\w.:-]{1,100}$/;

/** All routes, with those of the API documentation, which describes them all. */
function buildRouter(): Router {
  const routes = routesOf(contracts);
  const raw: readonly RawRoute[] = [
    ...rawRoutes,
    ...docsRoutes(() => openApiDocument(routes, raw)),
  ];
  return new Router(routes, raw);
}

/** A request id of the client goes on only if it is one; it ends up in logs. */
function cleanHeaders(req: IncomingMessage): void {
  const id = req.headers["x-request-id"];
  if (typeof id !== "string" || !REQUEST_ID.test(id)) delete req.headers["x-request-id"];
  delete req.headers["x-correlation-id"];
}

/** Counts each answer, and writes one line of it at level info. The path only: queries carry signatures. */
function watchAnswer(
  {
    logger,
    metrics,
    isLogged,
  }: { logger: Logger; metrics: Metrics | undefined; isLogged: boolean },
  req: IncomingMessage,
  res: ServerResponse,
): void {
  const startedAt = performance.now();
  const { url = "/", method = "" } = req;
  res.once("close", () => {
    const ms = performance.now() - startedAt;
    const status = res.writableFinished ? res.statusCode : 0;
    metrics?.request(method, patternOf((req as EdgeRequest).$target), status, ms / 1000);
    if (!isLogged) return;
    const id = res.getHeader("x-request-id") ?? "-";
    logger.info(`${method} ${pathOf(url)} ${status || "cut"} ${Math.round(ms)} ms ${id}`);
  });
}

/** What replaces moleculer-web's own: linear scan, 404 for a wrong method, errors that leak. */
const overridesFor = (router: Router) => ({
  /** @throws ROUTE_NOT_FOUND, METHOD_NOT_ALLOWED */
  resolveAlias(this: Gateway, path: string, method: string) {
    const { target, params } = router.resolve(method, path);
    const alias = {
      target,
      route: this.routes[0],
      action: target.spec?.action,
      toString: () => `${method} ${path}`,
    };
    return { alias, params };
  },
  parseQueryString: (req: EdgeRequest) => ({ url: pathOf(req.url ?? "/"), query: {} }),
  async aliasHandler(
    this: Gateway,
    req: EdgeRequest,
    res: ServerResponse,
    { target }: { target: Target },
  ) {
    await this.pipeline.run(req, res, target);
    return true;
  },
  errorHandler(this: Gateway, req: EdgeRequest, res: ServerResponse, error: unknown) {
    failure(formOf(req.$target), req, res, error, this.logger);
  },
});

/**
 * HTTP edge on moleculer-web: routes from the contracts and the raw routes, identity from the bearer token,
 * answers in the form each document gives. moleculer-web carries a request to its alias; routing, bodies,
 * errors and the listening socket are ours.
 * @param given The socket, where it was bound before; else the service binds it when it starts.
 */
export function gatewaySchema({ config }: NodeEnv, given?: EdgeServer): ServiceSchema {
  const router = buildRouter();
  let edge = given;
  let limit: RateLimit | undefined;
  const route = {
    path: "/",
    mappingPolicy: "restrict",
    mergeParams: false,
    logging: false,
    bodyParsers: false,
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
      routes: [route],
    } as ServiceSchema["settings"],
    // moleculer-web's own actions change routes at run time; nothing here needs that.
    actions: { listAliases: false, addRoute: false, removeRoute: false } as never,
    methods: overridesFor(router) as never,
    async started() {
      edge ??= await EdgeServer.listen(config);
      const { broker, logger } = this;
      limit = RateLimit.open(config);
      this.pipeline = new RequestPipeline({ config, router, edge, broker, logger, limit });
      const { metrics } = telemetryOf(config);
      const isLogged = ["info", "debug", "trace"].includes(config.LOG_LEVEL);
      const watch = { logger, metrics, isLogged };
      await clearSpool(config.DATA_DIR);
      edge.serve((req, res) => {
        cleanHeaders(req);
        watchAnswer(watch, req, res);
        if (req.method === "OPTIONS") {
          const allowed = router.allowed(pathOf(req.url ?? "/"));
          res.writeHead(allowed.length > 0 ? 204 : 404, { Allow: allowed.join(", ") });
          res.end();
        } else this.httpHandler(req, res);
      });
    },
    async stopped() {
      await edge?.close();
      await limit?.close();
    },
  };
}

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger, Service, ServiceSchema } from "moleculer";
import ApiGateway from "moleculer-web";
import { routesOf } from "../../lib/contract.ts";
import type { NodeEnv } from "../../lib/service.ts";
import { telemetryOf } from "../../lib/telemetry/node-telemetry.ts";
import { contracts } from "../contracts.ts";
import { failure } from "./answer.ts";
import { docsRoutes } from "./docs-routes.ts";
import { EdgeServer, type EndListener, type Handler } from "./edge-server.ts";
import { clearSpool } from "./multipart.ts";
import { openApiDocument } from "./openapi.ts";
import { RateLimit } from "./rate-limit.ts";
import type { RawRoute } from "./raw-route.ts";
import { rawRoutes } from "./raw-routes.ts";
import { type EdgeRequest, pathOf, RequestPipeline } from "./request-pipeline.ts";
import { formOf, patternOf, Router } from "./router.ts";

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
function answerWatch(logger: Logger, config: NodeEnv["config"]): EndListener {
  const { metrics } = telemetryOf(config);
  const isLogged = ["info", "debug", "trace"].includes(config.LOG_LEVEL);
  return (req, res, ms) => {
    const { $target, $ctx, originalUrl } = req as EdgeRequest;
    const { method = "", url = "/" } = req;
    const status = res.writableFinished ? res.statusCode : 0;
    metrics?.request(method, patternOf($target), status, ms / 1000);
    if (!isLogged) return;
    const path = pathOf(originalUrl ?? url);
    const id = $ctx?.requestID ?? "-";
    logger.info(`${method} ${path} ${status || "cut"} ${Math.round(ms)} ms ${id}`);
  };
}

/**
 * Carries one request to its route. The context stands for the client's request: what the route calls hangs under it,
 * and the policy hook sees by its service that the call comes from the edge.
 */
async function carry(
  service: Service,
  { router, pipeline }: { router: Router; pipeline: RequestPipeline },
  plain: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const req = plain as EdgeRequest;
  const { broker, logger } = service;
  const ctx = new broker.ContextFactory(broker) as EdgeRequest["$ctx"];
  ctx.service = service;
  const { url = "/", method = "" } = req;
  // Clean already: an id of the client is one that may stand in a log.
  const id = req.headers["x-request-id"];
  if (id !== undefined) ctx.requestID = id as string;
  req.$ctx = ctx;
  req.$headers = { "X-Request-ID": ctx.requestID ?? "" };
  req.originalUrl = url;
  try {
    const path = pathOf(url);
    const isSlashed = path.length > 1 && path.endsWith("/");
    const { target, params } = router.resolve(method, isSlashed ? path.slice(0, -1) : path);
    req.$pathParams = params;
    await pipeline.run(req, res, target);
  } catch (error) {
    failure(formOf(req.$target), req, res, error, logger);
  }
}

/**
 * HTTP edge, a service of moleculer-web whose way to carry a request is replaced: routes from the contracts and the raw
 * routes, identity from the bearer token, answers in the form each document gives. moleculer-web's own scans its routes
 * one by one, answers 404 to a wrong method, tells what errors hold and puts an action call around each request.
 * @param given The socket, where it was bound before; else the service binds it when it starts.
 */
export function gatewaySchema({ config }: NodeEnv, given?: EdgeServer): ServiceSchema {
  const router = buildRouter();
  let edge = given;
  let limit: RateLimit | undefined;
  let pipeline: RequestPipeline;
  return {
    name: "gateway",
    mixins: [ApiGateway as unknown as ServiceSchema],
    // The socket is bound before the stores open; routes are not moleculer-web's.
    settings: {
      server: false,
      routes: [],
      logRouteRegistration: null,
    } as ServiceSchema["settings"],
    // Its own actions carry requests in another way or change routes at run time.
    actions: { rest: false, listAliases: false, addRoute: false, removeRoute: false } as never,
    methods: {
      httpHandler(this: Service, req: IncomingMessage, res: ServerResponse) {
        cleanHeaders(req);
        if (req.method !== "OPTIONS") return carry(this, { router, pipeline }, req, res);
        const allowed = router.allowed(pathOf(req.url ?? "/"));
        res.writeHead(allowed.length > 0 ? 204 : 404, { Allow: allowed.join(", ") });
        res.end();
        return Promise.resolve();
      },
    } as never,
    async started() {
      edge ??= await EdgeServer.listen(config);
      const { broker, logger } = this;
      limit = RateLimit.open(config);
      pipeline = new RequestPipeline({ config, router, edge, broker, logger, limit });
      await clearSpool(config.DATA_DIR);
      const begin: Handler = (req, res) => void this.httpHandler(req, res);
      edge.serve(begin, answerWatch(logger, config));
    },
    async stopped() {
      await edge?.close();
      await limit?.close();
    },
  };
}

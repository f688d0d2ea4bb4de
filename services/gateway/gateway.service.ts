import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context, ServiceSchema } from "moleculer";
import ApiGateway from "moleculer-web";
import type { Actor, Route } from "../../lib/contract.ts";
import { routesOf } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import type { Meta, NodeEnv } from "../../lib/service.ts";
import { contracts } from "../contracts.ts";
import { failure, languageOf, success } from "./answer.ts";
import { coerceQuery } from "./coerce-query.ts";

type Request = IncomingMessage & {
  $alias?: { route?: unknown; spec?: Route };
  $params: { params: Record<string, string>; query: Record<string, unknown>; body: unknown };
  $ctx: Context<unknown, Meta>;
};

const BODY_LIMIT = "8mb";

const bearer = (req: IncomingMessage) =>
  /^Bearer +(.+)$/i.exec(req.headers.authorization ?? "")?.[1]?.trim();

/** HTTP edge: routes from the contracts, identity from the bearer token, answers in the form each document gives. */
export function gatewaySchema({ config }: NodeEnv): ServiceSchema {
  const routes = routesOf(contracts);
  return {
    name: "gateway",
    mixins: [ApiGateway as unknown as ServiceSchema],
    settings: {
      ip: config.HOST,
      port: config.PORT,
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
          bodyParsers: {
            json: { limit: BODY_LIMIT, strict: false },
            urlencoded: { extended: true, limit: BODY_LIMIT },
          },
          aliases: routes.map((spec) => ({
            method: spec.method,
            path: spec.path.replace(/\{(\w+)\}/g, ":$1"),
            action: spec.action,
            spec,
          })),
          async onBeforeCall(ctx: Context<unknown, Meta>, _route: unknown, req: Request) {
            const spec = req.$alias!.spec!;
            ctx.meta.language = languageOf(req.headers["accept-language"]);
            const token = bearer(req);
            if (token) {
              const actor = (await ctx.call("auth.verify", { token })) as Actor | null;
              if (!actor)
                throw new AppError("UNAUTHENTICATED", { reason: "the bearer token is not valid" });
              ctx.meta.actor = actor;
            }
            const { params, query, body } = req.$params;
            if (
              body !== undefined &&
              (typeof body !== "object" || Array.isArray(body) || body === null)
            )
              throw new AppError("INVALID_INPUT", { reason: "the body must be a JSON object" });
            req.$params = {
              ...coerceQuery(spec.contract.input, query),
              ...(body as object),
              ...coerceQuery(spec.contract.input, params),
            } as never;
          },
          onAfterCall(
            _ctx: Context,
            _route: unknown,
            req: Request,
            res: ServerResponse,
            data: unknown,
          ) {
            return success(req.$alias!.spec!.contract, req, res, data);
          },
        },
      ],
      onError(req: Request, res: ServerResponse, error: unknown) {
        failure(req.$alias?.spec?.contract, req, res, error);
      },
    } as ServiceSchema["settings"],
    methods: {
      /** Nothing matched: answered in the envelope, like every other failure. */
      send404(req: Request, res: ServerResponse) {
        failure(
          undefined,
          req,
          res,
          new AppError("ROUTE_NOT_FOUND", { method: req.method, path: req.url?.split("?")[0] }),
        );
      },
    },
  };
}

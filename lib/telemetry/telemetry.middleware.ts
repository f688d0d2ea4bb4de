import type { CallingOptions, Context, Middleware, Service } from "moleculer";
import type { Telemetry } from "./node-telemetry.ts";
import type { Span, SpanAttributes } from "./span.ts";
import { currentWork, type WorkScope, withinWork } from "./work-scope.ts";

type TracedContext = Context & { telemetrySpan?: Span };

/** Hangs what the request's own context calls under its span. */
export function traceCallsOf(ctx: Context, span: Span): void {
  (ctx as TracedContext).telemetrySpan = span;
}

/** The traceparent of what an action runs under: what a job takes with it. */
export const traceparentOf = (ctx: object): string | undefined =>
  (ctx as TracedContext).telemetrySpan?.traceparent;

/** Facts about what an action did, on its span where it has one. */
export const noteOnSpan = (ctx: object, attributes: SpanAttributes): void =>
  (ctx as TracedContext).telemetrySpan?.set(attributes);

const HEADER = "traceparent";
const headersOf = (carrier: unknown) => (carrier as { headers?: Record<string, unknown> }).headers;

/** Names of the job that an action is about, where its parameters say so. */
function scopeOf(ctx: Context, span: Span | undefined): WorkScope {
  const { jobId, job_id, attempt } = (ctx.params ?? {}) as Record<string, unknown>;
  const id = jobId ?? job_id;
  return {
    requestId: ctx.requestID ?? undefined,
    traceId: span?.traceId,
    jobId: typeof id === "string" ? id : undefined,
    attempt: typeof attempt === "number" ? attempt : undefined,
  };
}

/**
 * Numbers, spans and log fields of every action that this node hosts. Not Moleculer's own metrics and tracing: those
 * build a series or an event for each call whether anybody looks or not; here a call that is not recorded costs two
 * readings of a clock and an addition. The place in the trace travels in the headers of a call: meta, unlike headers,
 * is merged back into the caller.
 * @param bindLogs Whether lines that an action logs must carry what it works on.
 */
export function telemetryMiddleware(
  { metrics, tracing }: Telemetry,
  { bindLogs }: { bindLogs: boolean },
): Middleware {
  const middleware: Middleware = {
    name: "telemetry",
    localAction(next, action) {
      const name = action.name ?? "";
      const series = metrics?.action(name);
      const service = action.service?.fullName;
      return function watched(this: Service, ctx: Context) {
        const parent = tracing && headersOf(ctx)?.[HEADER];
        const span =
          typeof parent === "string"
            ? tracing?.begin({
                name,
                parent,
                attributes: { "rpc.service": service, "moleculer.caller": ctx.caller ?? undefined },
              })
            : undefined;
        if (span) traceCallsOf(ctx, span);
        const begunAt = performance.now();
        // Of two in one process, what an attempt calls must not go on as a part of the attempt.
        const done =
          bindLogs || (tracing && currentWork()?.span)
            ? withinWork(scopeOf(ctx, span), () => next.call(this, ctx))
            : next.call(this, ctx);
        done.then(
          () => {
            series?.ok((performance.now() - begunAt) / 1000);
            span?.end();
          },
          (error: unknown) => {
            series?.error((performance.now() - begunAt) / 1000);
            span?.end(error ?? new Error("rejected"));
          },
        );
        return done;
      };
    },
  };
  if (tracing) middleware.call = passOn as unknown as Middleware["call"];
  return middleware;
}

/** Tells the called action under which span it runs. */
function passOn(next: (name: string, params: unknown, options?: CallingOptions) => unknown) {
  return (name: string, params: unknown, options: CallingOptions = {}) => {
    const span =
      (options.parentCtx as TracedContext | undefined)?.telemetrySpan ?? currentWork()?.span;
    if (!span) return next(name, params, options);
    const headers = { ...options.headers, [HEADER]: span.traceparent };
    return next(name, params, { ...options, headers });
  };
}

import type { Context, Middleware, Service } from "moleculer";
import type { Actor, Realm } from "./contract.ts";
import { AppError, type LocalText } from "./errors.ts";
import type { Meta } from "./service.ts";

type Access = "public" | readonly Realm[];

/** Services at the edge act for somebody outside: what they call is checked; calls between other services are not. */
const edgeServices = new Set(["gateway"]);

/** Does this call come from outside, and not from another service on the way? */
export const isEdgeCall = (ctx: Pick<Context, "caller">) =>
  !ctx.caller || edgeServices.has(ctx.caller.split(".")[0]!);

/** The rule, without I/O: nobody may call what does not name them (deny by default). */
export function mayCall(
  access: Access,
  actor: Actor | undefined,
):
  | { allowed: true }
  | { allowed: false; type: "UNAUTHENTICATED" | "FORBIDDEN"; reason: LocalText } {
  if (actor?.realm === "system" || access === "public") return { allowed: true };
  if (!actor)
    return {
      allowed: false,
      type: "UNAUTHENTICATED",
      reason: { en: "a bearer token is needed", zh: "缺少访问令牌" },
    };
  if (access.includes(actor.realm)) return { allowed: true };
  return {
    allowed: false,
    type: "FORBIDDEN",
    reason:
      access.length === 0
        ? { en: "this action is internal", zh: "内部接口" }
        : {
            en: `needs ${access.join(" or ")}, this token is of ${actor.realm}`,
            zh: `需要 ${access.join(" 或 ")} 身份，当前令牌属于 ${actor.realm}`,
          },
  };
}

/** What carries no contract and may still be entered from outside: Moleculer's own actions. */
const isOwn = (name: string) => name.startsWith("$node.");

/**
 * Keeps the actor of a context as it came. Moleculer merges the meta of a finished sub-call back into its
 * caller's; without this, one call made as the system would turn the rest of the request into the system's.
 */
function pinActor(meta: Meta): void {
  const actor = meta.actor;
  Object.defineProperty(meta, "actor", {
    get: () => actor,
    set: () => undefined,
    enumerable: true,
    configurable: true,
  });
}

/** The policy hook on every action (design, section 7). Runs on the node that hosts the action. */
export const accessMiddleware: Middleware = {
  name: "access",
  localAction(next, action) {
    if (isOwn(action.name ?? "")) return next;
    // An action without a contract (a mixin's, say) names nobody: closed to the outside.
    const access = (action as { access?: Access }).access ?? [];
    return function checked(this: Service, ctx: Context) {
      if (isEdgeCall(ctx)) {
        const verdict = mayCall(access, (ctx.meta as Meta).actor);
        if (!verdict.allowed)
          return Promise.reject(new AppError(verdict.type, { reason: verdict.reason }));
      }
      pinActor(ctx.meta as Meta);
      return next.call(this, ctx);
    };
  },
};

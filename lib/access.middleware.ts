import type { Context, Middleware, Service } from "moleculer";
import type { Actor, Realm } from "./contract.ts";
import { AppError } from "./errors.ts";
import type { Meta } from "./service.ts";

type Access = "public" | readonly Realm[];

/** Services at the edge act for somebody outside: what they call is checked; calls between other services are not. */
const edgeServices = new Set(["gateway"]);

const isEdgeCall = (ctx: Context) => !ctx.caller || edgeServices.has(ctx.caller.split(".")[0]!);

/** The rule, without I/O: nobody may call what does not name them (deny by default). */
export function mayCall(
  access: Access,
  actor: Actor | undefined,
): { allowed: true } | { allowed: false; type: "UNAUTHENTICATED" | "FORBIDDEN"; reason: string } {
  if (actor?.realm === "system" || access === "public") return { allowed: true };
  if (!actor)
    return { allowed: false, type: "UNAUTHENTICATED", reason: "a bearer token is needed" };
  if (access.includes(actor.realm)) return { allowed: true };
  return {
    allowed: false,
    type: "FORBIDDEN",
    reason:
      access.length === 0
        ? "this action is internal"
        : `needs ${access.join(" or ")}, this token is of ${actor.realm}`,
  };
}

/** The policy hook on every action (design, section 7). Runs on the node that hosts the action. */
export const accessMiddleware: Middleware = {
  name: "access",
  localAction(next, action) {
    const access = (action as { access?: Access }).access;
    // Moleculer's own actions ($node.*) and the gateway's request entry carry no contract.
    if (access === undefined) return next;
    return function checked(this: Service, ctx: Context) {
      if (isEdgeCall(ctx)) {
        const verdict = mayCall(access, (ctx.meta as Meta).actor);
        if (!verdict.allowed)
          return Promise.reject(new AppError(verdict.type, { reason: verdict.reason }));
      }
      return next.call(this, ctx);
    };
  },
};

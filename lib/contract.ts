import type { z } from "zod";
import type { ErrorType } from "./errors.ts";

/** Who may stand behind a call (design: four realms, plus agents, bridges and the system itself). */
export const realms = [
  "admin",
  "member",
  "merchant",
  "caller",
  "agent",
  "bridge",
  "system",
] as const;
export type Realm = (typeof realms)[number];

/** The one who acts, as established at the edge and carried in `ctx.meta.actor`. */
export interface Actor {
  realm: Realm;
  /** Stable identifier of the account, token or node. */
  id: string;
  name?: string;
  /** The sign-in behind the request, where there is one: what logout ends. */
  session?: string;
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
/** `"GET /agent/admin/app/{id}"`: the method and path as the documents write them. */
export type RouteText = `${Method} /${string}`;

export interface McpTool {
  /** Tool name in snake case, as agents see it. */
  tool: string;
  /** Written for an agent: what it does, when to use it, what comes back. */
  description: string;
  /** Short name for people, as clients show it. */
  title: string;
  /** It changes nothing. */
  readOnly?: boolean;
  /** It ends or removes something that cannot be brought back. */
  destructive?: boolean;
  /** Name of an output field `{ data, mimeType }` (base64) that agents get as an image instead of as data. */
  image?: string;
}

/**
 * Everything that is known of one action besides its handler. Validation, types, routes, OpenAPI, MCP
 * tools and operator help are derived from it; nothing lists an action a second time.
 */
export interface ActionContract<I extends z.ZodType = z.ZodType, O extends z.ZodType = z.ZodType> {
  summary: string;
  description?: string;
  input: I;
  output: O;
  /** Routes that lead here; none: only other services and operators can call it. */
  rest?: RouteText | readonly RouteText[];
  /** Realms that may call it from outside, or "public". Absent: nobody from outside (deny by default). */
  access?: "public" | readonly Realm[];
  /** Answer form: the platform envelope (default), or the plain JSON that its document gives. */
  form?: "platform" | "plain";
  /** HTTP status of success, 200 unless told. */
  successStatus?: number;
  /** Accepted body besides JSON. */
  body?: "multipart";
  /** Errors of its own, beyond those that any action may answer with. */
  errors?: readonly ErrorType[];
  /** Calling twice with the same input has the effect of calling once. */
  idempotent?: boolean;
  /** Longest time a call may take, in milliseconds; 30 s unless told. */
  timeoutMs?: number;
  mcp?: McpTool;
}

export interface ServiceContract<
  N extends string = string,
  A extends Record<string, ActionContract> = Record<string, ActionContract>,
> {
  /** Service name; a dot parts a module from its resource: `agent.app`. */
  name: N;
  /** Heading in the API documentation. */
  about: string;
  /** Hosted by one node at a time, the elected leader; callers wait for one (lib/leader-call.middleware.ts). */
  leaderHosted?: boolean;
  actions: A;
}

/** Types one action; a plain function so that `input` and `output` keep their exact schema types. */
export const action = <I extends z.ZodType, O extends z.ZodType>(
  contract: ActionContract<I, O>,
): ActionContract<I, O> => contract;

export const defineContract = <const N extends string, A extends Record<string, ActionContract>>(
  contract: ServiceContract<N, A>,
): ServiceContract<N, A> => contract;

/** Types of a service's actions by full name: `{ "agent.app.get": { input, params, output } }`. */
export type ActionsOf<C> =
  C extends ServiceContract<infer N, infer A>
    ? {
        [K in keyof A & string as `${N}.${K}`]: {
          /** What a caller passes (defaults may be left out). */
          input: z.input<A[K]["input"]>;
          /** What the handler sees (defaults filled in). */
          params: z.output<A[K]["input"]>;
          output: z.output<A[K]["output"]>;
        };
      }
    : never;

export interface Route {
  method: Method;
  /** Path with `{name}` placeholders. */
  path: string;
  /** Full action name. */
  action: string;
  contract: ActionContract;
  service: ServiceContract;
}

/** All routes of a list of services, in the order of their definition. */
export function routesOf(services: readonly ServiceContract[]): Route[] {
  return services.flatMap((service) =>
    Object.entries(service.actions).flatMap(([name, contract]) =>
      [contract.rest ?? []].flat().map((text) => {
        const [method, path] = text.split(" ") as [Method, string];
        return { method, path, action: `${service.name}.${name}`, contract, service };
      }),
    ),
  );
}

import type { Context, Logger, Service, ServiceBroker, ServiceSchema } from "moleculer";
import { z } from "zod";
import type { Config } from "./config.ts";
import type { ActionContract, ActionsOf, Actor, ServiceContract } from "./contract.ts";
import { AppError } from "./errors.ts";
import { describeIssues } from "./issues.ts";
import type { Collection } from "./store/record-store.ts";

/**
 * Types of every action by full name, filled from the contracts in `services/contracts.ts` by module
 * augmentation. It makes `ctx.call` know its parameters and its answer.
 */
// biome-ignore lint/suspicious/noEmptyInterface: filled by augmentation
export interface ActionRegistry {}

export type ActionName = keyof ActionRegistry & string;
export type InputOf<N extends ActionName> = ActionRegistry[N] extends { input: infer I }
  ? I
  : never;
export type OutputOf<N extends ActionName> = ActionRegistry[N] extends { output: infer O }
  ? O
  : never;

export interface Meta {
  actor?: Actor;
  language?: "zh" | "en";
  /** Address of the client, as far as the edge trusts it. */
  clientAddress?: string;
  /** Public address of the gateway that took the request. */
  baseUrl?: string;
  [key: string]: unknown;
}

export interface CallOptions {
  /** Send to this node only. */
  nodeID?: string;
  /** Milliseconds; 0 waits for ever. */
  timeout?: number;
  meta?: Partial<Meta>;
  /** For the called action only; not merged back, unlike meta. */
  headers?: Record<string, string>;
  stream?: NodeJS.ReadableStream;
  parentCtx?: Context;
}

export type TypedCall = <N extends ActionName>(
  name: N,
  params: InputOf<N>,
  options?: CallOptions,
) => Promise<OutputOf<N>>;

/** What a handler sees of Moleculer's context: typed parameters, typed calls, the actor. */
export type ActionContext<P> = Omit<Context<P, Meta>, "call" | "stream"> & {
  call: TypedCall;
  stream?: NodeJS.ReadableStream;
};

/** What a node gives to each service that it hosts. */
export interface NodeEnv {
  config: Config;
}

/** What a service's own code gets besides the parameters of a call. */
export interface ServiceHost extends NodeEnv {
  broker: ServiceBroker;
  service: Service;
  logger: Logger;
  /** Typed call on behalf of the service itself (actor: system). */
  call: TypedCall;
}

type Handlers<C extends ServiceContract, S> = {
  [K in keyof C["actions"] & string]: (
    ctx: ActionContext<z.output<C["actions"][K]["input"]>>,
    state: S,
    host: ServiceHost,
  ) => Promise<z.output<C["actions"][K]["output"]>> | z.output<C["actions"][K]["output"]>;
};

export interface ServiceImplementation<C extends ServiceContract, S> {
  /** Opens what the service needs; its answer is handed to every handler. Runs before the service is announced. */
  start?: (host: ServiceHost) => Promise<S> | S;
  stop?: (state: S, host: ServiceHost) => Promise<void> | void;
  handlers: Handlers<C, S>;
  /** Moleculer events that it listens to. */
  events?: Record<string, (payload: unknown, state: S, host: ServiceHost) => Promise<void> | void>;
  /** Further Moleculer mixins, e.g. the record store. */
  mixins?: (env: NodeEnv) => Partial<ServiceSchema>[];
  /** Services that must be there before this one starts. */
  dependencies?: readonly string[];
}

export interface ServiceDefinition<C extends ServiceContract = ServiceContract> {
  contract: C;
  /** Further contracts whose services it hosts on one of its nodes. */
  hosts?: readonly ServiceContract[];
  /** Collections that its records lie in: what there is to move from one store to another. */
  collections?: readonly Collection[];
  schema: (env: NodeEnv) => ServiceSchema;
}

export const systemActor: Actor = { realm: "system", id: "system" };

/** Typed calls outside a request, as the system itself. */
export const systemCall =
  (broker: ServiceBroker): TypedCall =>
  (name, params, options) =>
    broker.call(
      name,
      params as never,
      { ...options, meta: { actor: systemActor, ...options?.meta } } as never,
    ) as never;

const chinese = z.locales.zhCN().localeError;

/** Checks and fills in parameters; a wrong one gives an error that names each path, in the caller's language. */
export function parseInput(
  contract: ActionContract,
  params: unknown,
  language: "zh" | "en" = "en",
): unknown {
  const parsed = contract.input.safeParse(
    params ?? {},
    language === "zh" ? { error: chinese } : undefined,
  );
  if (parsed.success) return parsed.data;
  const issues = describeIssues(parsed.error);
  throw new AppError("INVALID_INPUT", {
    reason: issues.map((issue) => `${issue.path || "(body)"}: ${issue.message}`).join("; "),
    issues,
  });
}

/** Binds handlers to a contract; the result is what a node hosts. */
export function implementService<C extends ServiceContract, S = undefined>(
  contract: C,
  implementation: ServiceImplementation<C, S>,
): ServiceDefinition<C> {
  const schema = (env: NodeEnv): ServiceSchema => {
    let state: S;
    let host: ServiceHost;
    let started = false;
    const actions = Object.fromEntries(
      Object.entries(contract.actions).map(([name, actionContract]) => {
        const handler = (
          implementation.handlers as Record<
            string,
            (ctx: unknown, state: S, host: ServiceHost) => unknown
          >
        )[name];
        if (!handler) throw new Error(`${contract.name}.${name} has no handler`);
        return [
          name,
          {
            // Read by the access middleware; plain data, so that Moleculer may clone and publish it.
            access: actionContract.access ?? [],
            timeout: actionContract.timeoutMs,
            handler(ctx: Context) {
              ctx.params = parseInput(
                actionContract,
                ctx.params,
                (ctx.meta as Meta).language,
              ) as object;
              // Handlers hand it on as a function.
              ctx.call = ctx.call.bind(ctx) as typeof ctx.call;
              return handler(ctx, state, host);
            },
          },
        ];
      }),
    );
    const events = Object.fromEntries(
      Object.entries(implementation.events ?? {}).map(([name, listener]) => [
        name,
        { handler: (ctx: Context) => listener(ctx.params, state, host) },
      ]),
    );
    return {
      name: contract.name,
      mixins: implementation.mixins?.(env) as ServiceSchema[] | undefined,
      dependencies: [...(implementation.dependencies ?? [])],
      actions: actions as never,
      events: events as never,
      async started(this: Service) {
        host = {
          ...env,
          broker: this.broker,
          service: this,
          logger: this.logger,
          call: systemCall(this.broker),
        };
        state = (await implementation.start?.(host)) as S;
        started = true;
      },
      async stopped(this: Service) {
        // What could not start has nothing to stop.
        if (started) await implementation.stop?.(state, host);
      },
    };
  };
  return { contract, schema };
}

export type { ActionsOf };

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger, ServiceBroker } from "moleculer";
import type { Actor, Method, Realm } from "../../lib/contract.ts";
import type { Language } from "../../lib/errors.ts";
import type { NodeEnv, TypedCall } from "../../lib/service.ts";

/** What a raw route gets besides request and response. */
export interface RawExchange {
  /** Typed call on behalf of the client: the policy hook checks it like any other request. */
  call: TypedCall;
  /** Undefined for an anonymous client of a public route. */
  actor: Actor | undefined;
  /** The node itself; `host.call` acts as the system and may call internal actions. */
  host: NodeEnv & { broker: ServiceBroker; logger: Logger; call: TypedCall };
  /** Decoded path parts by placeholder name. */
  params: Record<string, string>;
  /** The query exactly as it came: raw routes carry signatures, so that the input filter leaves them alone. */
  query: URLSearchParams;
  language: Language;
  /** Address under which clients reach this gateway, without a slash at its end. */
  baseUrl: string;
  /** Aborted when the client has gone or the gateway stops: end streams then. */
  signal: AbortSignal;
}

/**
 * A route that reads its request and writes its answer by itself: streams, ranges, protocols with a form
 * of their own. Everything else is an action with a contract. A raw route still has one policy: `access` is
 * checked before `handle` runs, and an error that `handle` throws is answered like every other (`form`),
 * as long as the head has not been sent. HEAD goes to the GET route unless one of its own is listed.
 */
export interface RawRoute {
  method: Method | "HEAD";
  /** `{name}` takes one part; `{name*}`, at the end, takes the rest, slashes included. */
  path: `/${string}`;
  access: "public" | readonly Realm[];
  /** It looks by itself at who asks: no token is checked and no limit counts it, so that probes need no other node. */
  selfGuarded?: boolean;
  /** One line for the API documentation. */
  summary: string;
  /** Form of error answers; "plain" unless told. */
  form?: "platform" | "plain";
  /** The request's body, where it is no action's input: media types for the API documentation. */
  requestTypes?: readonly string[];
  handle(req: IncomingMessage, res: ServerResponse, exchange: RawExchange): Promise<void> | void;
}

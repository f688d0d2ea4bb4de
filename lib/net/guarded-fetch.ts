import { lookup as systemLookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { Agent, buildConnector, request } from "undici";
import { AppError, asAppError } from "../errors.ts";
import { addressRefusal, type FetchAllow, hostRefusal, isAllowedHost } from "./address.policy.ts";

export interface Address {
  address: string;
  family: number;
}
/** Looks a name up; replaced in tests by one that answers differently each time. */
export type Resolve = (hostname: string) => Promise<Address[]>;

export interface GuardedFetchOptions {
  allow: FetchAllow;
  redirectsMax: number;
  connectMs: number;
  /** Longest silence of the server before and during the body. */
  silenceMs: number;
  signal?: AbortSignal;
  resolve?: Resolve;
}

export interface GuardedResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: AsyncIterable<Uint8Array>;
  /** Frees the connection; must be called, read or not. */
  close(): Promise<void>;
}

const forbidden = (host: string, reason: string) =>
  new AppError("ADDRESS_FORBIDDEN", {
    host,
    reason: `it is ${reason}; an operator can permit it with FETCH_ALLOW`,
  });

const resolveBySystem: Resolve = (hostname) =>
  new Promise((done, failed) =>
    systemLookup(hostname, { all: true }, (error, addresses) =>
      error ? failed(error) : done(addresses),
    ),
  );

/**
 * Looks up a name and refuses it if any of its addresses is forbidden. The socket connects to the very
 * addresses that were checked, so a name that answers differently the next time gains nothing.
 */
function guardedLookup(resolve: Resolve, allow: FetchAllow): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        for (const { address } of isAllowedHost(hostname, allow) ? [] : addresses) {
          const refusal = addressRefusal(address, allow);
          if (refusal) return callback(forbidden(hostname, refusal) as Error, "", 0);
        }
        const first = addresses[0];
        if (!first) return callback(new Error(`no address for ${hostname}`), "", 0);
        if (options.all) callback(null, addresses as never, 0);
        else callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, "", 0),
    );
  };
}

/** Connections that check the address they are made to. Their requests must not use any other way. */
export function guardedAgent({
  allow,
  connectMs,
  silenceMs,
  resolve,
}: Pick<GuardedFetchOptions, "allow" | "connectMs" | "silenceMs" | "resolve">): Agent {
  const connect = buildConnector({
    timeout: connectMs,
    lookup: guardedLookup(resolve ?? resolveBySystem, allow),
  });
  return new Agent({
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
    // A literal address is never looked up, so it is checked here.
    connect(options, callback) {
      const host = options.hostname.replace(/^\[|\]$/g, "");
      const refusal = isIP(host) ? hostRefusal(host, allow) : undefined;
      if (refusal) return callback(forbidden(host, refusal), null);
      connect(options, callback);
    },
  });
}

/** The product's own refusal, if that is what stopped the request. */
export function refusalIn(error: unknown): AppError | undefined {
  for (let at = error, depth = 0; at && depth < 5; depth++) {
    const known = asAppError(at);
    if (known) return new AppError(known.type, known.data);
    const nested = (at as AggregateError).errors?.find(asAppError);
    at = nested ?? (at as Error).cause;
  }
  return undefined;
}

/**
 * GET of an address that a caller gave. Every address is checked when the connection to it is made, again
 * for each redirect; environment proxies are not used, since they would connect in our place.
 * @throws AppError ADDRESS_FORBIDDEN; other failures as undici gives them.
 */
export async function guardedFetch(
  address: string,
  options: GuardedFetchOptions,
): Promise<GuardedResponse> {
  const agent = guardedAgent(options);
  try {
    let url = new URL(address);
    for (let redirects = 0; ; redirects++) {
      if (url.protocol !== "http:" && url.protocol !== "https:")
        throw forbidden(url.href.slice(0, 80), `a ${url.protocol} address, not http or https`);
      if (url.username || url.password) throw forbidden(url.host, "an address with a password");
      const refusal = hostRefusal(url.hostname, options.allow);
      if (refusal) throw forbidden(url.hostname, refusal);
      const response = await request(url, {
        dispatcher: agent,
        signal: options.signal,
        headers: { "accept-encoding": "identity", "user-agent": "reelmesh" },
      });
      const location = response.headers["location"];
      if (![301, 302, 303, 307, 308].includes(response.statusCode) || typeof location !== "string")
        return {
          status: response.statusCode,
          headers: response.headers,
          body: response.body,
          close: () => agent.destroy(),
        };
      await response.body.dump();
      if (redirects >= options.redirectsMax)
        throw new Error(`more than ${options.redirectsMax} redirects`);
      if (!URL.canParse(location, url.href)) throw new Error("a redirect to no URL");
      url = new URL(location, url.href);
    }
  } catch (error) {
    await agent.destroy();
    throw refusalIn(error) ?? error;
  }
}

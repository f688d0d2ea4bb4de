import FindMyWay, { type HTTPMethod } from "find-my-way";
import type { ActionContract, Method, Route } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import type { RawRoute } from "./raw-route.ts";

/** A route of either kind, as the pipeline carries it. */
export type Target = { spec: Route; raw?: undefined } | { raw: RawRoute; spec?: undefined };

export interface Match {
  target: Target;
  /** Decoded path parts. */
  params: Record<string, string>;
}

const served = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
const REST = /\{(\w+)\*\}$/;

/** The route as it was declared, never a path of a request: what numbers and spans are counted under. */
export const patternOf = (target: Target | undefined): string =>
  target?.spec?.path ?? target?.raw?.path ?? "(none)";

export const formOf = (target: Target | undefined): ActionContract["form"] =>
  target?.spec ? target.spec.contract.form : target?.raw ? (target.raw.form ?? "plain") : undefined;

/** Radix-tree router over all routes; two routes on one method and path are a mistake and stop the start. */
export class Router {
  readonly #tree = FindMyWay({ maxParamLength: 1024 });

  constructor(routes: readonly Route[], raw: readonly RawRoute[]) {
    for (const spec of routes) this.#add(spec.method, spec.path, { spec });
    for (const route of raw) this.#add(route.method, route.path, { raw: route });
  }

  #add(method: Method | "HEAD", path: string, target: Target): void {
    const rest = REST.exec(path)?.[1];
    const pattern = path.replace(REST, "*").replace(/\{(\w+)\}/g, ":$1");
    // With and without a slash at the end, but for names of objects, where it belongs to the name.
    const bare = pattern.replace(/\/$/, "");
    const patterns = rest === undefined && bare !== "" ? [bare, `${bare}/`] : [pattern];
    for (const one of patterns)
      this.#tree.on(method as HTTPMethod, one, () => undefined, { target, rest });
  }

  #find(method: string, path: string): Match | undefined {
    const found = this.#tree.find(method as HTTPMethod, path);
    // A path that cannot be decoded finds the router's own fallback, which carries no target.
    if (!found?.store?.target) return undefined;
    const { target, rest } = found.store as { target: Target; rest?: string };
    const { "*": tail, ...params } = found.params as Record<string, string>;
    if (rest !== undefined) params[rest] = tail ?? "";
    return { target, params };
  }

  /** Methods that some route serves on this path, for `Allow`. */
  allowed(path: string): string[] {
    const methods: string[] = served.filter((method) => this.#find(method, path));
    if (methods.includes("GET") && !methods.includes("HEAD")) methods.push("HEAD");
    if (methods.length > 0) methods.push("OPTIONS");
    return methods;
  }

  /** @throws ROUTE_NOT_FOUND, or METHOD_NOT_ALLOWED with the methods that the path has. */
  resolve(method: string, path: string): Match {
    const match =
      this.#find(method, path) ?? (method === "HEAD" ? this.#find("GET", path) : undefined);
    if (match) return match;
    const allowed = this.allowed(path);
    throw allowed.length > 0
      ? new AppError("METHOD_NOT_ALLOWED", { method, path, allowed })
      : new AppError("ROUTE_NOT_FOUND", { method, path });
  }
}

import type { AddressInfo, Server } from "node:net";
import { AppError } from "../../lib/errors.ts";
import type { Meta, ServiceHost } from "../../lib/service.ts";

const WILDCARDS = new Set(["0.0.0.0", "::"]);

/**
 * Address under which clients reach a gateway, for links in answers: PUBLIC_URL; else where the gateway of
 * this process listens (PORT may be 0, so that only the socket knows); else the gateway that took the request.
 */
export function linkBase(
  { config, broker }: Pick<ServiceHost, "config" | "broker">,
  meta: Pick<Meta, "baseUrl">,
): string {
  if (config.PUBLIC_URL) return config.PUBLIC_URL.replace(/\/+$/, "");
  const gateway = broker.getLocalService("gateway") as { server?: Server } | undefined;
  const bound = gateway?.server?.address() as AddressInfo | null | undefined;
  if (bound && !(WILDCARDS.has(config.HOST) && meta.baseUrl)) {
    const host = WILDCARDS.has(config.HOST) ? "127.0.0.1" : config.HOST;
    return `http://${host.includes(":") ? `[${host}]` : host}:${bound.port}`;
  }
  if (meta.baseUrl) return meta.baseUrl.replace(/\/+$/, "");
  throw new AppError("NOT_CONFIGURED", {
    what: "PUBLIC_URL",
    fix: "set it to the address under which clients reach a gateway; this node hosts none",
  });
}

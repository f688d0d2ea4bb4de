import { AppError } from "../../lib/errors.ts";
import type { Meta, ServiceHost } from "../../lib/service.ts";

/**
 * Address under which clients reach a gateway, for links in answers: PUBLIC_URL; else the gateway that took
 * the request; else the one of this process (PORT may be 0, so that only its socket knows).
 */
export function linkBase(
  { config, broker }: Pick<ServiceHost, "config" | "broker">,
  meta: Pick<Meta, "baseUrl">,
): string {
  const own: unknown = broker.metadata["gatewayUrl"];
  const base = config.PUBLIC_URL ?? meta.baseUrl ?? (typeof own === "string" ? own : undefined);
  if (base) return base.replace(/\/+$/, "");
  throw new AppError("NOT_CONFIGURED", {
    what: "PUBLIC_URL",
    fix: "set it to the address under which clients reach a gateway; this node hosts none",
  });
}

/** What operators and their machines ask a node for; the same on the gateway, a health listener and a bridge. */
export const operationalPaths = ["/healthz", "/readyz", "/metrics"] as const;
export type OperationalPath = (typeof operationalPaths)[number];

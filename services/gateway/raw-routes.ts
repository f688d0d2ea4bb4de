import { protocolRoutes } from "../mcp/protocol.ts";
import { objectRoutes } from "../storage/object-routes.ts";
import { healthRoutes } from "./health-routes.ts";
import type { RawRoute } from "./raw-route.ts";

/** Every route that is no action. Append the list of a module here, in one line. */
export const rawRoutes: readonly RawRoute[] = [...objectRoutes, ...protocolRoutes, ...healthRoutes];

import type { ActionsOf } from "../lib/contract.ts";
import { agentAppContract } from "./agent/app.contract.ts";
import { agentRunContract } from "./agent/run.contract.ts";
import { storyboardContract } from "./aigc/storyboard.contract.ts";
import { authContract } from "./auth/auth.contract.ts";
import { composeContract } from "./compose/compose.contract.ts";
import { homeContract } from "./gateway/home.contract.ts";
import { schedulerContract } from "./scheduler/scheduler.contract.ts";
import { storageContract } from "./storage/storage.contract.ts";

/** Every contract of the product, once. Routes, OpenAPI, MCP tools and types are derived from this list. */
export const contracts = [
  authContract,
  homeContract,
  schedulerContract,
  composeContract,
  storageContract,
  agentAppContract,
  agentRunContract,
  storyboardContract,
] as const;

type Contracts = (typeof contracts)[number];
type Union<C> = C extends unknown ? (actions: ActionsOf<C>) => void : never;
type AllActions = Union<Contracts> extends (actions: infer A) => void ? A : never;

declare module "../lib/service.ts" {
  interface ActionRegistry extends AllActions {}
}

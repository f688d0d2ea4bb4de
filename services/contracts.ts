import type { ActionsOf } from "../lib/contract.ts";
import { agentAppContract } from "./agent/app.contract.ts";
import { agentRunContract } from "./agent/run.contract.ts";
import { dubbingContract } from "./aigc/dubbing.contract.ts";
import { plannerContract } from "./aigc/planner.contract.ts";
import { storyboardContract } from "./aigc/storyboard.contract.ts";
import { authContract } from "./auth/auth.contract.ts";
import { bridgeContract } from "./compose/bridge.contract.ts";
import { composeContract } from "./compose/compose.contract.ts";
import { homeContract } from "./gateway/home.contract.ts";
import { agentToolsContract } from "./mcp/agent-tools.contract.ts";
import { mcpContract } from "./mcp/mcp.contract.ts";
import { schedulerContract } from "./scheduler/scheduler.contract.ts";
import { schedulerElectionContract } from "./scheduler/scheduler-election.contract.ts";
import { cloudFilesContract } from "./storage/cloud-files.contract.ts";
import { storageContract } from "./storage/storage.contract.ts";

/** Every contract of the product, once. Routes, OpenAPI, MCP tools and types are derived from this list. */
export const contracts = [
  authContract,
  homeContract,
  schedulerContract,
  schedulerElectionContract,
  composeContract,
  storageContract,
  cloudFilesContract,
  agentAppContract,
  agentRunContract,
  storyboardContract,
  bridgeContract,
  agentToolsContract,
  mcpContract,
  dubbingContract,
  plannerContract,
] as const;

type Contracts = (typeof contracts)[number];
type Union<C> = C extends unknown ? (actions: ActionsOf<C>) => void : never;
type AllActions = Union<Contracts> extends (actions: infer A) => void ? A : never;

declare module "../lib/service.ts" {
  interface ActionRegistry extends AllActions {}
}

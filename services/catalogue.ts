import type { Role } from "../lib/config.ts";
import type { ServiceDefinition } from "../lib/service.ts";
import { agentAppService } from "./agent/app.service.ts";
import { agentRunService } from "./agent/run.service.ts";
import { dubbingService } from "./aigc/dubbing.service.ts";
import { plannerService } from "./aigc/planner.service.ts";
import { storyboardService } from "./aigc/storyboard.service.ts";
import { authService } from "./auth/auth.service.ts";
import { bridgeService } from "./compose/bridge.service.ts";
import { composeService } from "./compose/compose.service.ts";
import { homeService } from "./gateway/home.service.ts";
import { agentToolsService } from "./mcp/agent-tools.service.ts";
import { mcpService } from "./mcp/mcp.service.ts";
import { schedulerElectionService } from "./scheduler/scheduler-election.service.ts";
import { cloudFilesService } from "./storage/cloud-files.service.ts";
import { storageService } from "./storage/storage.service.ts";

/** What a node of each role hosts. The gateway is added by `lib/node.ts`, since it reads the contracts. */
export const catalogue: Record<Exclude<Role, "gateway">, readonly ServiceDefinition[]> = {
  platform: [
    storageService as unknown as ServiceDefinition,
    cloudFilesService as unknown as ServiceDefinition,
    authService as unknown as ServiceDefinition,
    homeService as unknown as ServiceDefinition,
    agentAppService,
    agentRunService,
    storyboardService,
    bridgeService as unknown as ServiceDefinition,
    agentToolsService as unknown as ServiceDefinition,
    mcpService as unknown as ServiceDefinition,
    dubbingService as unknown as ServiceDefinition,
    plannerService as unknown as ServiceDefinition,
  ],
  scheduler: [schedulerElectionService],
  compose: [composeService as unknown as ServiceDefinition],
  fleet: [],
  publish: [],
};

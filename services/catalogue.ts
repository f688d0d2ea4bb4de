import type { Role } from "../lib/config.ts";
import type { ServiceDefinition } from "../lib/service.ts";
import { agentAppService } from "./agent/app.service.ts";
import { agentRunService } from "./agent/run.service.ts";
import { storyboardService } from "./aigc/storyboard.service.ts";
import { authService } from "./auth/auth.service.ts";
import { homeService } from "./gateway/home.service.ts";
import { storageService } from "./storage/storage.service.ts";

/** What a node of each role hosts. The gateway is added by `lib/node.ts`, since it reads the contracts. */
export const catalogue: Record<Exclude<Role, "gateway">, readonly ServiceDefinition[]> = {
  platform: [
    storageService as unknown as ServiceDefinition,
    authService as unknown as ServiceDefinition,
    homeService as unknown as ServiceDefinition,
    agentAppService,
    agentRunService,
    storyboardService,
  ],
  scheduler: [],
  compose: [],
  fleet: [],
  publish: [],
};

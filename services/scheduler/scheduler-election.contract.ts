import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";

export const schedulerElectionContract = defineContract({
  name: "schedulerElection",
  about: "Which node leads the scheduler",
  actions: {
    status: action({
      summary: "What a scheduler node knows of the leader",
      rest: "GET /admin/scheduler/leader",
      access: ["admin"],
      input: z.object({}),
      output: z.object({
        role: z.enum(["leader", "standby", "stopped"]),
        term: z.int().describe("Latest term that this node knows of; 0: none yet"),
        holder: z.string().describe("Node that leads; empty: none"),
        sinceMs: z.number().describe("How long this role has lasted"),
        lastRenewedMs: z
          .number()
          .optional()
          .describe("Time since the leader's last sign of life; absent where it needs none"),
      }),
      idempotent: true,
    }),
  },
});

import { z } from "zod";
import { defineResource } from "../../mixins/resource.ts";

/** Agent apps: what an agent is set up to make (platform document, sections 2 and 4). */
export const agentApp = defineResource({
  service: "agent.app",
  about: "Agent apps",
  label: "agent app",
  path: "/agent/admin/app",
  cached: true,
  access: { read: ["admin", "agent"], write: ["admin"] },
  fields: z.object({
    name: z.string().trim().min(1).max(120),
    description: z.string().max(4000).default(""),
    agentId: z.string().min(1).max(64).optional().describe("Agent that it belongs to"),
    icon: z
      .url({ protocol: /^https?$/ })
      .max(2000)
      .optional(),
    category: z.string().trim().min(1).max(60).optional(),
    prompt: z.string().max(20_000).optional().describe("Instructions that its agent starts with"),
    config: z
      .record(z.string().max(120), z.unknown())
      .default({})
      .describe("Settings of the app, free in form"),
    status: z.enum(["enabled", "disabled"]).default("enabled").describe("Disabled: no new runs"),
    sort: z.int().min(0).max(1_000_000).default(0).describe("Place in menus, smallest first"),
  }),
  filters: ["name", "status", "agentId", "category"],
  sorts: ["name", "status", "sort"],
  search: ["name", "description", "category"],
});

export const agentAppContract = agentApp.contract;

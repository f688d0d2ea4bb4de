import { AppError } from "../../lib/errors.ts";
import { implementResource } from "../../mixins/resource-service.ts";
import { agentApp } from "./app.contract.ts";

export const agentAppService = implementResource(agentApp, {
  hooks: {
    /** Runs point at their app, as a foreign key would. */
    async beforeRemove(ids, ctx) {
      for (const id of ids) {
        const { total } = await ctx.call(
          "agent.run.list",
          { app_id: id, pageSize: 1 },
          // What is decided for good is decided on what is stored.
          { meta: { $cache: false } },
        );
        if (total > 0)
          throw new AppError("CONFLICT", {
            reason: `agent app ${id} has ${total} runs; remove them first, or disable the app`,
          });
      }
    },
  },
});

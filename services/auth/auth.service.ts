import { createHash, timingSafeEqual } from "node:crypto";
import { implementService } from "../../lib/service.ts";
import { authContract } from "./auth.contract.ts";

const digest = (text: string) => createHash("sha256").update(text).digest();
const same = (a: string, b: string) => timingSafeEqual(digest(a), digest(b));

export const authService = implementService(authContract, {
  handlers: {
    verify: (ctx, _state, { config }) => {
      if (same(ctx.params.token, config.MCP_TOKEN))
        return { realm: "agent" as const, id: "mcp-token" };
      if (same(ctx.params.token, config.BRIDGE_TOKEN))
        return { realm: "bridge" as const, id: "bridge-token" };
      return null;
    },
  },
});

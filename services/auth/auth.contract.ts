import { z } from "zod";
import { action, defineContract, realms } from "../../lib/contract.ts";

export const Actor = z.object({
  realm: z.enum(realms),
  id: z.string(),
  name: z.string().optional(),
});

export const authContract = defineContract({
  name: "auth",
  about: "Sign-in and bearer tokens",
  actions: {
    verify: action({
      summary: "Who stands behind a bearer token",
      input: z.object({ token: z.string().max(512) }),
      output: Actor.nullable(),
    }),
  },
});

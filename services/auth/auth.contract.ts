import { z } from "zod";
import { action, defineContract, realms } from "../../lib/contract.ts";

export const Actor = z.object({
  realm: z.enum(realms),
  id: z.string(),
  name: z.string().optional(),
  session: z.string().optional(),
});

export const authContract = defineContract({
  name: "auth",
  about: "Sign-in and bearer tokens",
  actions: {
    verify: action({
      summary: "Who stands behind a bearer token",
      // As long as a header may be: a token that is too long is one that nobody has, not a wrong parameter.
      input: z.object({ token: z.string().max(16_384) }),
      output: Actor.nullable(),
      idempotent: true,
    }),
    adminLogin: action({
      summary: "Administrator login",
      description:
        "Send the token with every request as `Authorization: Bearer <token>`. It ends 12 hours after the login.",
      rest: "POST /auth/admin/login",
      access: "public",
      input: z.strictObject({
        username: z.string().min(1).max(64),
        password: z.string().min(1).max(256),
      }),
      output: z.object({
        token: z.string(),
        expiresAt: z.int().describe("Milliseconds since the epoch"),
        user: z.object({ id: z.string(), username: z.string() }),
      }),
      errors: ["LOGIN_REJECTED", "RATE_LIMITED"],
    }),
    adminLogout: action({
      summary: "Administrator logout",
      description: "Ends the token that the request carries, at once.",
      rest: "GET /auth/admin/logout",
      access: ["admin"],
      input: z.object({}),
      output: z.object({}),
      idempotent: true,
    }),
  },
});

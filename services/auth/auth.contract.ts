import { z } from "zod";
import { action, defineContract, realms } from "../../lib/contract.ts";

export const Actor = z.object({
  realm: z.enum(realms),
  id: z.string(),
  name: z.string().optional(),
  session: z.string().optional(),
});

/** Whom a verification code is for. */
const codeSubject = {
  purpose: z
    .string()
    .regex(/^[a-z][a-z0-9.-]{0,39}$/, "must be 1 to 40 small letters, digits, dots, dashes")
    .describe("What the code permits: `member.login`"),
  address: z
    .string()
    .min(3)
    .max(254)
    .describe("Phone number or mail address that it is sent to, in one form for one address"),
};

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
    issueCode: action({
      summary: "A verification code for an address, which the caller sends",
      description:
        "The code before it is none any more. It ends after 5 minutes, 5 wrong tries or its use; an address gets one a minute and 5 an hour for one purpose.",
      input: z.strictObject(codeSubject),
      output: z.object({
        code: z.string(),
        expiresAt: z.int().describe("Milliseconds since the epoch"),
      }),
      errors: ["RATE_LIMITED", "UNAVAILABLE"],
    }),
    checkCode: action({
      summary: "Whether somebody knows the code that was sent to an address",
      description:
        "`accepted` once: it is used up by that. `none`: there is no code to be tried, it ended, was used or was tried too often.",
      input: z.strictObject({ ...codeSubject, code: z.string().max(32) }),
      output: z.object({ verdict: z.enum(["accepted", "wrong", "none"]) }),
      errors: ["UNAVAILABLE"],
    }),
  },
});

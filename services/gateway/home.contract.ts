import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";

export const homeContract = defineContract({
  name: "index",
  about: "System home",
  actions: {
    home: action({
      summary: "Name, version and time of the system",
      rest: "GET /index/",
      access: "public",
      input: z.object({}),
      output: z.object({
        name: z.string(),
        version: z.string(),
        time: z.int().describe("Milliseconds since the epoch"),
        docs: z.string().describe("Path of the API documentation"),
      }),
      idempotent: true,
    }),
  },
});

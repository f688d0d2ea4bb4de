import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";

const JobRef = { jobId: z.uuid(), attempt: z.int().min(1) };

/** What the scheduler says to a compose node; always with `nodeID`. Internal. */
export const composeContract = defineContract({
  name: "compose",
  about: "Compose nodes",
  actions: {
    begin: action({
      summary: "Take an attempt; answers as soon as it is in the node's journal",
      input: z.object({
        ...JobRef,
        kind: z.string(),
        payload: z.record(z.string(), z.unknown()),
        owner: z.string(),
        leaseMs: z.int(),
        boot: z
          .string()
          .describe("The run of the node that the order is for; another run refuses it"),
        trace: z.string().max(200).optional().describe("W3C traceparent of the job"),
      }),
      output: z.object({
        outcome: z.enum(["accepted", "duplicate", "refused"]),
        reason: z.string().optional(),
      }),
      idempotent: true,
    }),
    halt: action({
      summary: "Kill an attempt",
      input: z.object({ ...JobRef, reason: z.string() }),
      output: z.object({ held: z.boolean() }),
      idempotent: true,
    }),
    probe: action({
      summary: "Which attempts this node holds",
      input: z.object({}),
      output: z.object({ boot: z.string(), attempts: z.array(z.object(JobRef)) }),
      idempotent: true,
    }),
  },
});

import { z } from "zod";
import { action, defineContract } from "../../lib/contract.ts";
import { JobAnswer } from "../compose/bridge.answer.ts";
import { JobId } from "../scheduler/scheduler.contract.ts";
import { mcpLimits } from "./config.ts";

const access = ["agent", "admin"] as const;
const JsonSchema = z.record(z.string(), z.unknown()).describe("JSON Schema 2020-12");

export const Tool = z.object({
  name: z.string(),
  title: z.string(),
  description: z.string(),
  inputSchema: JsonSchema,
  outputSchema: JsonSchema,
  annotations: z.object({
    readOnlyHint: z.boolean(),
    destructiveHint: z.boolean(),
    idempotentHint: z.boolean(),
    openWorldHint: z.boolean(),
  }),
});
export type Tool = z.infer<typeof Tool>;

export const Content = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({
    type: z.literal("image"),
    data: z.string().describe("Base64"),
    mimeType: z.string(),
  }),
]);
export type Content = z.infer<typeof Content>;

export const ToolResult = z.object({
  content: z.array(Content).describe("What an agent reads"),
  structuredContent: z
    .record(z.string(), z.unknown())
    .optional()
    .describe("The same as data, as the tool's outputSchema says"),
  isError: z.boolean(),
  error: z
    .object({
      type: z.string(),
      retry: z.enum(["never", "later"]).describe("Whether the same call may succeed later"),
      issues: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
    })
    .optional(),
  job_id: z.uuid().optional().describe("The job that the call started or was about"),
});
export type ToolResult = z.infer<typeof ToolResult>;

export const Resource = z.object({
  uri: z.string(),
  name: z.string(),
  title: z.string(),
  description: z.string().optional(),
  mimeType: z.string(),
});
export type Resource = z.infer<typeof Resource>;

export const ResourceText = z.object({
  uri: z.string(),
  mimeType: z.string(),
  text: z.string(),
});

export const Prompt = z.object({
  name: z.string(),
  title: z.string(),
  description: z.string(),
  arguments: z.array(
    z.object({ name: z.string(), description: z.string(), required: z.boolean() }),
  ),
});
export type Prompt = z.infer<typeof Prompt>;

/** The plain form of the MCP interface (platform document, MCP interface); the protocol itself is in `protocol.ts`. */
export const mcpContract = defineContract({
  name: "mcp",
  about: "Tools, resources and prompts for AI agents",
  actions: {
    tools: action({
      summary: "Tools with the schemas of their arguments and results",
      rest: "GET /mcp/tools",
      form: "plain",
      access,
      input: z.object({}),
      output: z.object({ tools: z.array(Tool) }),
      idempotent: true,
    }),
    call: action({
      summary: "Call a tool",
      description:
        "A tool that cannot do what was asked answers with isError and a text that says what was wrong, at which path, and what would be right.",
      rest: "POST /mcp/tools/call",
      timeoutMs: mcpLimits.callMs,
      form: "plain",
      access,
      input: z.strictObject({
        name: z.string().min(1).max(128),
        arguments: z.record(z.string(), z.unknown()).default({}),
        run_id: z
          .string()
          .min(1)
          .max(64)
          .optional()
          .describe("Agent app run that gets the result; the same as arguments.run_id"),
        idempotency_key: z
          .string()
          .min(1)
          .max(200)
          .optional()
          .describe("The same as arguments.idempotency_key"),
      }),
      output: ToolResult,
    }),
    job: action({
      summary: "State of a job; media_url once it has succeeded",
      rest: "GET /mcp/jobs/{id}",
      form: "plain",
      access,
      input: z.object({ id: JobId }),
      output: JobAnswer,
      errors: ["JOB_NOT_FOUND"],
      idempotent: true,
    }),
    resources: action({
      summary: "Resources; with uri, the text of one",
      rest: "GET /mcp/resources",
      form: "plain",
      access,
      input: z.object({ uri: z.string().min(1).max(500).optional() }),
      output: z.union([
        z.object({ contents: z.array(ResourceText) }),
        z.object({
          resources: z.array(Resource),
          resourceTemplates: z.array(
            z.object({
              uriTemplate: z.string(),
              name: z.string(),
              title: z.string(),
              description: z.string(),
              mimeType: z.string(),
            }),
          ),
        }),
      ]),
      errors: ["NOT_FOUND"],
      idempotent: true,
    }),
    prompts: action({
      summary: "Prompts; with name, the messages of one",
      description: "Arguments of a prompt are given as query parameters beside its name.",
      rest: "GET /mcp/prompts",
      form: "plain",
      access,
      input: z
        .object({ name: z.string().min(1).max(128).optional() })
        .catchall(z.string().max(4000)),
      output: z.union([
        z.object({
          description: z.string(),
          messages: z.array(
            z.object({
              role: z.enum(["user", "assistant"]),
              content: z.object({ type: z.literal("text"), text: z.string() }),
            }),
          ),
        }),
        z.object({ prompts: z.array(Prompt) }),
      ]),
      errors: ["NOT_FOUND"],
      idempotent: true,
    }),
  },
});

import { z } from "zod";
import type { ActionContract, McpTool, ServiceContract } from "../../lib/contract.ts";
import type { ActionName } from "../../lib/service.ts";
import type { Tool } from "./mcp.contract.ts";

export type JsonSchema = Record<string, unknown>;

/** A tool as the product sees it: the action behind it and what agents are told. */
export interface ToolDefinition {
  listed: Tool;
  action: ActionName;
  contract: ActionContract & { mcp: McpTool };
}

const jsonSchema = (schema: z.ZodType, io: "input" | "output"): JsonSchema => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
  });
  return rest;
};

/** The image travels beside the data, so that the result's schema does not name it. */
function outputSchema({ output, mcp }: ActionContract & { mcp: McpTool }): JsonSchema {
  const schema = jsonSchema(output, "output") as JsonSchema & {
    properties?: JsonSchema;
    required?: string[];
  };
  if (!mcp.image) return schema;
  const { [mcp.image]: _, ...properties } = schema.properties ?? {};
  return {
    ...schema,
    properties,
    required: schema.required?.filter((name) => name !== mcp.image),
  };
}

function toolOf(action: string, contract: ActionContract & { mcp: McpTool }): ToolDefinition {
  const { mcp } = contract;
  return {
    action: action as ActionName,
    contract,
    listed: {
      name: mcp.tool,
      title: mcp.title,
      description: mcp.description,
      inputSchema: jsonSchema(contract.input, "input"),
      outputSchema: outputSchema(contract),
      annotations: {
        readOnlyHint: mcp.readOnly ?? false,
        destructiveHint: mcp.destructive ?? false,
        idempotentHint: contract.idempotent ?? false,
        openWorldHint: false,
      },
    },
  };
}

/**
 * The tools of agents: every action that has one, from its contract. Both forms of the interface serve this list.
 * @throws when two actions claim one tool name.
 */
export function toolsOf(services: readonly ServiceContract[]): Map<string, ToolDefinition> {
  const tools = new Map<string, ToolDefinition>();
  for (const service of services)
    for (const [name, contract] of Object.entries(service.actions)) {
      if (!contract.mcp) continue;
      if (tools.has(contract.mcp.tool)) throw new Error(`two tools are named ${contract.mcp.tool}`);
      tools.set(
        contract.mcp.tool,
        toolOf(`${service.name}.${name}`, contract as ActionContract & { mcp: McpTool }),
      );
    }
  return tools;
}

import { mayCall } from "../../lib/access.middleware.ts";
import { AppError } from "../../lib/errors.ts";
import { restoreUrls } from "../../lib/restore-urls.ts";
import { type ActionContext, implementService } from "../../lib/service.ts";
import { answerFor, jobFor } from "../compose/bridge.answer.ts";
import { contracts } from "../contracts.ts";
import { mcpLimits } from "./config.ts";
import { mcpContract, type ToolResult } from "./mcp.contract.ts";
import { findPrompt, prompts } from "./prompts.ts";
import { listResources, readResource, resourceTemplates } from "./resources.ts";
import { type ToolDefinition, toolsOf } from "./tool-registry.ts";
import { failureOf, invalidArguments, resultOf, unknownTool } from "./tool-result.ts";

type Tools = ReadonlyMap<string, ToolDefinition>;

const visible = (tools: Tools, actor: Parameters<typeof mayCall>[1]) =>
  [...tools.values()].filter(({ contract }) => mayCall(contract.access ?? [], actor).allowed);

/** Fields that a client may give beside the arguments instead of among them. */
function mergeArguments(
  { contract }: ToolDefinition,
  { arguments: given, run_id, idempotency_key }: CallParams,
): Record<string, unknown> {
  const names = Object.keys((contract.input as { shape?: object }).shape ?? {});
  const beside = Object.entries({ run_id, idempotency_key }).filter(
    ([name, value]) => value !== undefined && names.includes(name),
  );
  return { ...Object.fromEntries(beside), ...restoreUrls(given) };
}

interface CallParams {
  name: string;
  arguments: Record<string, unknown>;
  run_id?: string;
  idempotency_key?: string;
}

async function callTool(ctx: ActionContext<CallParams>, tools: Tools): Promise<ToolResult> {
  const tool = tools.get(ctx.params.name);
  const verdict = tool && mayCall(tool.contract.access ?? [], ctx.meta.actor);
  if (!tool || !verdict) return unknownTool(ctx.params.name, tools);
  // Calls between services are not checked by the policy hook, and this one is made for somebody outside.
  if (!verdict.allowed) throw new AppError(verdict.type, { reason: verdict.reason });
  const given = mergeArguments(tool, ctx.params);
  const parsed = tool.contract.input.safeParse(given);
  if (!parsed.success) return invalidArguments(tool, parsed.error, given);
  try {
    const output = await ctx.call(tool.action, given as never, { timeout: mcpLimits.callMs });
    return resultOf(tool, output);
  } catch (error) {
    return failureOf(tool, error);
  }
}

export const mcpService = implementService(mcpContract, {
  start: (): Tools => toolsOf(contracts),
  handlers: {
    tools: (ctx, tools) => ({
      tools: visible(tools, ctx.meta.actor).map(({ listed }) => listed),
    }),
    call: callTool,
    job: async (ctx) => answerFor(await jobFor(ctx.params.id, ctx.meta.actor, ctx.call), ctx.call),
    resources: async (ctx) =>
      ctx.params.uri === undefined
        ? { resources: await listResources(ctx.meta.actor, ctx.call), resourceTemplates }
        : { contents: [await readResource(ctx.params.uri, ctx.meta.actor, ctx.call)] },
    prompts: (ctx) => {
      const { name, ...given } = ctx.params;
      return name === undefined
        ? { prompts: prompts.map(({ listed }) => listed) }
        : findPrompt(name, given as Record<string, string>);
    },
  },
});

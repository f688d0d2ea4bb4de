import { z } from "zod";
import { asAppError, errorMessage, errorTable } from "../../lib/errors.ts";
import { mcpLimits } from "./config.ts";
import { type Explained, explainArguments } from "./explain-arguments.policy.ts";
import type { Content, ToolResult } from "./mcp.contract.ts";
import { nearestName } from "./nearest-name.policy.ts";
import type { ToolDefinition } from "./tool-registry.ts";

const Image = z.object({ data: z.string(), mimeType: z.string() });
const JobMark = z.object({ job_id: z.uuid() });

const jobIdOf = (value: unknown): string | undefined => JobMark.safeParse(value).data?.job_id;

/** What a tool's action answered, as an agent gets it: text, an image where the contract names one, and data. */
export function resultOf({ contract }: ToolDefinition, output: unknown): ToolResult {
  const { image: imageField } = contract.mcp;
  const { [imageField ?? ""]: given, ...data } = output as Record<string, unknown>;
  const content: Content[] = [{ type: "text", text: JSON.stringify(data, null, 2) }];
  const image = imageField ? Image.safeParse(given).data : undefined;
  if (image) content.unshift({ type: "image", ...image });
  return { content, structuredContent: data, isError: false, job_id: jobIdOf(data) };
}

const failed = (
  type: string,
  text: string,
  more: Pick<NonNullable<ToolResult["error"]>, "retry" | "issues">,
): ToolResult => ({
  content: [{ type: "text", text }],
  isError: true,
  error: { type, ...more },
});

export function unknownTool(name: string, tools: ReadonlyMap<string, ToolDefinition>): ToolResult {
  const known = [...tools.keys()];
  const meant = nearestName(name, known);
  return failed(
    "TOOL_NOT_FOUND",
    `There is no tool "${name}".${meant ? ` Did you mean "${meant}"?` : ""} Tools: ${known.join(", ")}.`,
    { retry: "never" },
  );
}

const listed = (issues: readonly Explained[], more: number) =>
  [
    ...issues.map(({ path, message }) => `- ${path}: ${message}`),
    ...(more > 0 ? [`- and ${more} more`] : []),
  ].join("\n");

/** The arguments do not fit the tool's schema; nothing was called. */
export function invalidArguments(
  { listed: tool }: ToolDefinition,
  error: z.ZodError,
  given: unknown,
): ToolResult {
  const { issues, more } = explainArguments(
    error.issues,
    given,
    tool.inputSchema,
    mcpLimits.issuesMax,
  );
  return failed(
    "INVALID_INPUT",
    `The arguments of ${tool.name} are not valid. Correct these and call again; nothing was started.\n${listed(issues, more)}`,
    { retry: "never", issues },
  );
}

/** What the failure of a tool means to an agent. What is none of ours is thrown on: the edge answers it. */
export function failureOf({ listed: tool }: ToolDefinition, error: unknown): ToolResult {
  const known = asAppError(error);
  if (!known) throw error;
  const { retry } = errorTable[known.type];
  const found = z
    .array(z.object({ path: z.string(), message: z.string() }))
    .safeParse(known.data["issues"]).data;
  const advice =
    retry === "later"
      ? "The same call may succeed later."
      : "The same call will fail again; change it first.";
  const text = `${tool.name} failed (${known.type}). ${errorMessage(known.type, known.data, "en")}${
    found ? `\n${listed(found, 0)}` : ""
  }\n${advice}`;
  return failed(known.type, text, { retry, issues: found });
}

import type { Actor } from "../../lib/contract.ts";
import { AppError, asAppError } from "../../lib/errors.ts";
import type { TypedCall } from "../../lib/service.ts";
import { answerFor, jobFor, visibleOwner } from "../compose/bridge.answer.ts";
import { mcpLimits } from "./config.ts";
import type { Resource } from "./mcp.contract.ts";
import { timelineGuide } from "./timeline-guide.ts";

const GUIDE = "reelmesh://guide/timeline";
const json = "application/json";

const kinds = {
  jobs: { title: "Render job", description: "State of a render job with its outputs" },
  runs: { title: "Agent app run", description: "A run with its status and media_url" },
  storyboards: { title: "Storyboard", description: "A storyboard with its scenes" },
} as const;
type Kind = keyof typeof kinds;

export const resourceTemplates = Object.entries(kinds).map(([kind, { title, description }]) => ({
  uriTemplate: `reelmesh://${kind}/{id}`,
  name: kind,
  title,
  description,
  mimeType: json,
}));

/** What there is to read: the guide, and the latest jobs, runs and storyboards of the caller. */
export async function listResources(
  actor: Actor | undefined,
  call: TypedCall,
): Promise<Resource[]> {
  const pageSize = mcpLimits.resourcesMax;
  const [{ jobs }, runs, storyboards] = await Promise.all([
    call("scheduler.list", { owner: visibleOwner(actor), limit: pageSize }),
    call("agent.run.list", { pageSize, sort: "-createdAt" }),
    call("aigc.storyboard.list", { pageSize, sort: "-createdAt" }),
  ]);
  return [
    {
      uri: GUIDE,
      name: "timeline-guide",
      title: "How to write a timeline",
      description: "The timeline format of compose_timeline_ffmpeg with a complete example",
      mimeType: "text/markdown",
    },
    ...jobs.map(({ id, kind, state }) => ({
      uri: `reelmesh://jobs/${id}`,
      name: id,
      title: `${kind} job, ${state}`,
      mimeType: json,
    })),
    ...runs.rows.map(({ id, status }) => ({
      uri: `reelmesh://runs/${id}`,
      name: id,
      title: `Agent app run, ${status}`,
      mimeType: json,
    })),
    ...storyboards.rows.map(({ id, title }) => ({
      uri: `reelmesh://storyboards/${id}`,
      name: id,
      title: `Storyboard: ${title}`,
      mimeType: json,
    })),
  ];
}

const readers: Record<
  Kind,
  (id: string, actor: Actor | undefined, call: TypedCall) => Promise<unknown>
> = {
  jobs: async (id, actor, call) => answerFor(await jobFor(id, actor, call), call),
  runs: (id, _actor, call) => call("agent.run.get", { id }),
  storyboards: (id, _actor, call) => call("aigc.storyboard.get", { id }),
};

/** @throws NOT_FOUND for a URI that names nothing; it says which forms there are. */
export async function readResource(uri: string, actor: Actor | undefined, call: TypedCall) {
  if (uri === GUIDE) return { uri, mimeType: "text/markdown", text: timelineGuide };
  const [, kind, id] = /^reelmesh:\/\/(\w+)\/([\w-]{1,64})$/.exec(uri) ?? [];
  const forms = [GUIDE, ...resourceTemplates.map(({ uriTemplate }) => uriTemplate)];
  if (!kind || !id || !Object.hasOwn(readers, kind))
    throw new AppError("NOT_FOUND", { what: `Resource ${uri} (there are ${forms.join(", ")})` });
  try {
    const value = await readers[kind as Kind](id, actor, call);
    return { uri, mimeType: json, text: JSON.stringify(value, null, 2) };
  } catch (error) {
    const type = asAppError(error)?.type;
    if (type !== "JOB_NOT_FOUND" && type !== "INVALID_INPUT") throw error;
    throw new AppError("NOT_FOUND", { what: `Resource ${uri}` });
  }
}

import type { ServiceBroker } from "moleculer";
import { asAppError, errorMessage } from "../../lib/errors.ts";
import { systemCall, type TypedCall } from "../../lib/service.ts";
import type { JobView } from "../../services/scheduler/scheduler.contract.ts";
import { textTable } from "./text-table.ts";

interface Arguments {
  options: Record<string, unknown>;
  rawCommand: string;
  [argument: string]: unknown;
}
interface Command {
  command: string;
  description: string;
  options?: { option: string; description: string }[];
  allowUnknownOptions?: boolean;
  action: (broker: ServiceBroker, args: Arguments) => Promise<void>;
}

const at = (ms: number | undefined) =>
  ms === undefined ? "" : new Date(ms).toISOString().replace("T", " ").slice(0, 19);
const percent = (part: number) => `${Math.round(part * 100)} %`;

/** A failure is one sentence here; a stack helps no operator. */
const told =
  (work: (call: TypedCall, args: Arguments) => Promise<string>): Command["action"] =>
  async (broker, args) => {
    try {
      console.log(await work(systemCall(broker), args));
    } catch (error) {
      const known = asAppError(error);
      console.log(
        known ? errorMessage(known.type, known.data) : ((error as Error).message ?? String(error)),
      );
    }
  };

const jobRow = (job: JobView) => [
  job.id,
  job.kind,
  job.state,
  percent(job.progress),
  String(job.attempt),
  job.node ?? "",
  at(job.createdAt),
  job.error?.message ?? job.stage ?? "",
];

async function jobText(call: TypedCall, id: string): Promise<string> {
  const job = await call("scheduler.get", { id });
  const { lines } = await call("scheduler.log", { id, limit: 50 });
  const facts: [string, string][] = [
    ["id", job.id],
    ["kind", job.kind],
    ["queue", job.queue],
    ["owner", job.owner],
    ["state", job.state],
    ["progress", `${percent(job.progress)} ${job.stage ?? ""}`],
    ["attempts", `${job.attempt} (errors ${job.errors}, nodes lost ${job.nodesLost})`],
    ["node", job.node ?? ""],
    ["created", at(job.createdAt)],
    ["started", at(job.startedAt)],
    ["ended", at(job.endedAt)],
    ["error", job.error ? `${job.error.type}: ${job.error.message}` : ""],
    ...(job.result?.outputs ?? []).map((output): [string, string] => [
      `output ${output.role}`,
      `${output.bucket}/${output.key} (${output.bytes} bytes)`,
    ]),
  ];
  const shown = facts.filter(([, value]) => value.trim() !== "");
  const log = lines.map((line) => [at(line.at), String(line.attempt), line.level, line.text]);
  return [
    textTable(["FIELD", "VALUE"], shown),
    ...(log.length > 0 ? ["", textTable(["TIME", "ATTEMPT", "LEVEL", "LOG"], log)] : []),
  ].join("\n");
}

/** The JSON part of `submit <kind> <json>` as typed: the shell-like parser would eat its quotes. */
function payloadOf(rawLine: string, kind: string): Record<string, unknown> {
  const text = rawLine.slice(rawLine.indexOf(kind) + kind.length).trim();
  try {
    return text === "" ? {} : JSON.parse(text);
  } catch (error) {
    throw new Error(`the payload is not JSON (${(error as Error).message}): ${text}`);
  }
}

/** `line` answers with the command line as it was typed. */
export const operatorCommands = (line: () => string): Command[] => [
  {
    command: "jobs",
    description: "Jobs, newest first",
    options: [
      { option: "--state <state>", description: "pending, running, success, failed or cancelled" },
      { option: "--limit <n>", description: "at most so many (default 20)" },
    ],
    action: told(async (call, { options }) => {
      const { jobs } = await call("scheduler.list", {
        limit: Number(options["limit"] ?? 20),
        ...(options["state"] ? { state: options["state"] as JobView["state"] } : {}),
      });
      return jobs.length === 0
        ? "no jobs"
        : textTable(
            ["ID", "KIND", "STATE", "DONE", "ATTEMPT", "NODE", "CREATED", "NOTE"],
            jobs.map(jobRow),
          );
    }),
  },
  {
    command: "job <id>",
    description: "One job with its log",
    action: told((call, { id }) => jobText(call, String(id))),
  },
  {
    command: "submit <kind> [json...]",
    description: 'Submit a job: submit noop {"ms":100}',
    allowUnknownOptions: true,
    action: told(async (call, { kind }) => {
      const payload = payloadOf(line(), String(kind));
      const job = await call("scheduler.submit", { kind: String(kind), payload });
      return `accepted ${job.id}`;
    }),
  },
  {
    command: "cancel <id>",
    description: "Cancel a job; a running one is killed",
    action: told(async (call, { id }) => {
      const job = await call("scheduler.cancel", { id: String(id) });
      return `${job.id} is ${job.state}`;
    }),
  },
  {
    command: "workers",
    description: "Nodes that render, with their load, and who leads the scheduler (also: nodes)",
    action: told(async (call) => {
      const { nodes } = await call("scheduler.nodes", {});
      const { holder, term } = await call("schedulerElection.status", {});
      const table =
        nodes.length === 0
          ? "no compose node has reported"
          : textTable(
              ["NODE", "SLOTS", "CPU", "MEMORY", "GPU", "KINDS", "SEEN", "NOTE"],
              nodes.map((node) => [
                node.node,
                `${node.used}/${node.slots}`,
                `${Math.round(node.cpuPercent)} %`,
                `${Math.round(node.memoryPercent)} %`,
                node.gpu.count === 0 ? "none" : `${node.gpu.idle}/${node.gpu.count} idle`,
                node.kinds.join(","),
                `${(node.lastSeenMs / 1000).toFixed(1)} s ago`,
                node.draining ? "draining" : "",
              ]),
            );
      return `${table}\n\nscheduler: ${holder} leads, term ${term}`;
    }),
  },
];

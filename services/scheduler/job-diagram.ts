import type { JobMessage } from "./job.messages.ts";
import { created, step } from "./job.step.ts";
import { type Job, type JobSpec, type JobState, jobStates } from "./job.types.ts";

const spec: JobSpec = {
  id: "00000000-0000-7000-8000-000000000000",
  kind: "noop",
  queue: "default",
  owner: "system:system",
  payload: {},
  priority: 50,
  createdAt: 0,
  dueAt: 0,
  attemptsMax: 2,
  backoffMs: 1_000,
  backoffMsMax: 60_000,
  timeoutMs: 60_000,
  stallMs: 30_000,
  requires: {},
};
const pending = created(spec);
const running: Job = {
  spec,
  history: { ...pending.history, attempt: 1, lastNode: "n1", progressAt: 0 },
  state: "running",
  node: "n1",
  boot: "b1",
  leaseUntil: 20_000,
  attemptAt: 0,
  accepted: false,
};
const error = { type: "RENDER_FAILED", message: "it failed" };
const result = { hash: "h", outputs: [], info: {} };
const ended = { spec, history: running.history, endedAt: 1 };

/** One job in each state, for the diagram and for the table test. */
export const exampleJobs: Record<JobState, Job> = {
  pending,
  running,
  success: { ...ended, state: "success", result },
  failed: { ...ended, state: "failed", error },
  cancelled: { ...ended, state: "cancelled", reason: "" },
};

const holder = { attempt: 1, node: "n1", boot: "b1" };
type Example = {
  label: string;
  message: JobMessage;
  now?: number;
  history?: Partial<Job["history"]>;
};

/** Every message, with each circumstance that makes it end elsewhere. */
export const exampleMessages: readonly Example[] = [
  { label: "claim", message: { type: "claim", node: "n1", boot: "b1", leaseMs: 20_000 } },
  { label: "accepted", message: { type: "accepted", attempt: 1 } },
  { label: "refused", message: { type: "refused", attempt: 1, reason: "full" } },
  { label: "renew", message: { type: "renew", ...holder, leaseMs: 20_000, progress: 0.5 } },
  { label: "complete", message: { type: "complete", ...holder, result } },
  {
    label: "fail, attempts left",
    message: { type: "fail", ...holder, error, retryable: true, random: 0 },
  },
  {
    label: "fail, not retryable",
    message: { type: "fail", ...holder, error, retryable: false, random: 0 },
  },
  {
    label: "fail, last attempt",
    message: { type: "fail", ...holder, error, retryable: true, random: 0 },
    history: { errors: 1 },
  },
  {
    label: "handBack",
    message: { type: "handBack", attempt: 1, node: "n1", cause: "drain", nodesLostMax: 3 },
  },
  {
    label: "leaseExpired",
    message: { type: "leaseExpired", attempt: 1, countsAsLoss: true, nodesLostMax: 3 },
    now: 20_000,
  },
  {
    label: "leaseExpired, third node lost",
    message: { type: "leaseExpired", attempt: 1, countsAsLoss: true, nodesLostMax: 3 },
    now: 20_000,
    history: { nodesLost: 2 },
  },
  {
    label: "nodeGone",
    message: { type: "nodeGone", node: "n1", boot: "b2", nodesLostMax: 3 },
  },
  {
    label: "nodeGone, third node lost",
    message: { type: "nodeGone", node: "n1", boot: "b2", nodesLostMax: 3 },
    history: { nodesLost: 2 },
  },
  {
    label: "handBack after a restart, third node lost",
    message: { type: "handBack", attempt: 1, node: "n1", cause: "restart", nodesLostMax: 3 },
    history: { nodesLost: 2 },
  },
  { label: "cancel", message: { type: "cancel", reason: "" } },
  { label: "retry", message: { type: "retry" } },
  { label: "timeout", message: { type: "timeout", attempt: 1, random: 0 }, now: 60_000 },
  { label: "stall", message: { type: "stall", attempt: 1, random: 0 }, now: 30_000 },
  {
    label: "timeout, last attempt",
    message: { type: "timeout", attempt: 1, random: 0 },
    now: 60_000,
    history: { errors: 1 },
  },
  {
    label: "stall, last attempt",
    message: { type: "stall", attempt: 1, random: 0 },
    now: 30_000,
    history: { errors: 1 },
  },
];

/** What the state machine makes of an example; the target state, or why it was ignored. */
export function outcomeOf(state: JobState, { message, now = 1_000, history }: Example): string {
  const job = exampleJobs[state];
  const result = step({ ...job, history: { ...job.history, ...history } }, message, now);
  return result.outcome === "changed" ? result.job.state : `ignored: ${result.reason}`;
}

/** The state diagram of a job as Mermaid text, found by running the state machine itself. */
export function jobDiagram(): string {
  const arrows = new Map<string, string[]>();
  for (const from of jobStates)
    for (const example of exampleMessages) {
      const to = outcomeOf(from, example);
      if (to.startsWith("ignored")) continue;
      const key = `${from} --> ${to}`;
      arrows.set(key, [...(arrows.get(key) ?? []), example.label]);
    }
  const lines = [...arrows].map(([arrow, labels]) => `  ${arrow}: ${labels.join("; ")}`);
  return ["stateDiagram-v2", "  [*] --> pending: submit", ...lines, ""].join("\n");
}

/** The diagram as a page, kept beside the code as `job-states.generated.md`; a test compares the two. */
export const jobStatesPage = (): string =>
  [
    "# States of a job",
    "",
    "Made by running the state machine (`job-diagram.ts`, `jobStatesPage`); `test/unit/job-step.test.ts` fails when it is out of step.",
    "",
    "```mermaid",
    `${jobDiagram()}\`\`\``,
    "",
  ].join("\n");

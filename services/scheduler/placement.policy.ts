import type { JobKind, JobSpec, Ms, NodeReport } from "./job.types.ts";

/** What placement knows of a node. */
export interface NodeLoad {
  report: NodeReport;
  /** Slots that are taken, by running attempts and by those that are being killed. */
  used: number;
  /** When its last report came. */
  seenAt: Ms;
  /** It refused an attempt or lost its connection since its last report. */
  suspect: boolean;
}

/** What a job asks of a node. */
export interface Needs {
  kind: JobKind;
  gpu: boolean;
  /** Where its latest attempt ran: another node is preferred. */
  lastNode?: string;
}

export type Rejection = "kind" | "no-gpu" | "draining" | "stale" | "suspect" | "full";

export interface Placement {
  chosen?: { node: string; boot: string; why: string };
  /** Every node that was passed over because it cannot take the job. */
  rejected: { node: string; reason: Rejection }[];
}

/** Why a node cannot take a job now; nothing when it can. */
export function rejection(
  needs: Needs,
  node: NodeLoad,
  now: Ms,
  freshMs: number,
): Rejection | undefined {
  const { report } = node;
  if (!report.kinds.includes(needs.kind)) return "kind";
  if (needs.gpu && report.gpu.count === 0) return "no-gpu";
  if (report.draining) return "draining";
  if (now - node.seenAt > freshMs) return "stale";
  if (node.suspect) return "suspect";
  if (node.used >= report.slots) return "full";
  return undefined;
}

/** Smaller is better, compared from left to right. */
function rank(needs: Needs, { report, used }: NodeLoad): readonly (number | string)[] {
  return [
    report.node === needs.lastNode ? 1 : 0,
    // A job that needs no GPU leaves the servers that have one to those that do.
    !needs.gpu && report.gpu.count > 0 ? 1 : 0,
    used / report.slots,
    // Steps of ten: the noise of a measurement must not decide.
    Math.floor(Math.max(report.cpuPercent, report.memoryPercent) / 10),
    needs.gpu ? Math.floor(report.gpu.usedPercent / 10) : 0,
    report.node,
  ];
}

function isBefore(a: readonly (number | string)[], b: readonly (number | string)[]): boolean {
  for (let at = 0; at < a.length; at++) {
    if (a[at]! < b[at]!) return true;
    if (a[at]! > b[at]!) return false;
  }
  return false;
}

/**
 * The node for one job: it must fit, then the least loaded wins; not where the last attempt was lost, if there is
 * a choice. Order by load follows the operations document, section 6, rule 1.
 */
export function chooseNode(
  needs: Needs,
  nodes: Iterable<NodeLoad>,
  now: Ms,
  freshMs: number,
): Placement {
  const rejected: Placement["rejected"] = [];
  let best: NodeLoad | undefined;
  let bestRank: readonly (number | string)[] = [];
  let fitting = 0;
  for (const node of nodes) {
    const reason = rejection(needs, node, now, freshMs);
    if (reason) {
      rejected.push({ node: node.report.node, reason });
      continue;
    }
    fitting += 1;
    const nodeRank = rank(needs, node);
    if (!best || isBefore(nodeRank, bestRank)) {
      best = node;
      bestRank = nodeRank;
    }
  }
  if (!best) return { rejected };
  const { node, boot, slots } = best.report;
  const why = `${fitting === 1 ? "the only node that fits" : `best of ${fitting}`}, ${best.used} of ${slots} slots in use`;
  return { chosen: { node, boot, why }, rejected };
}

/** Placement for the log: the choice and the nodes that were passed over. */
export function explain(placement: Placement, shownMax: number): string {
  const passed = placement.rejected
    .slice(0, shownMax)
    .map(({ node, reason }) => `${node} (${reason})`)
    .join(", ");
  const more = placement.rejected.length - shownMax;
  return `${placement.chosen?.why ?? "no node fits"}${passed ? `; passed over ${passed}${more > 0 ? ` and ${more} more` : ""}` : ""}`;
}

/**
 * Order of waiting jobs. Each point of priority is worth `agePointMs` of waiting, so the key is a point in time
 * and needs no updates while jobs age: smaller first.
 */
export const orderKey = (spec: Pick<JobSpec, "dueAt" | "priority">, agePointMs: number): number =>
  spec.dueAt + spec.priority * agePointMs;

/** Jobs of equal level share by owner in turns; smaller first. */
export const levelOf = (key: number, agePointMs: number): number => Math.floor(key / agePointMs);

/**
 * Waiting lifts a job to the level of a new job of priority 1, not above. There owners take turns first come first
 * served, so each job's wait is bounded: by its ageing (at most 99 points) and one turn of the other owners for each
 * earlier job of its own owner.
 */
export const isFullyAged = (level: number, now: Ms, agePointMs: number): boolean =>
  level <= Math.floor(now / agePointMs) + 1;

import { machineText } from "../../bench/machine.ts";
import type { ChaosResult, FaultRecord } from "./chaos-run.ts";

/** Value below which the given share of the values lies. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

function counts<T>(items: readonly T[], key: (item: T) => string): [string, number][] {
  const found = new Map<string, number>();
  for (const item of items) found.set(key(item), (found.get(key(item)) ?? 0) + 1);
  return [...found].sort(([, a], [, b]) => b - a);
}

function faultRows(faults: readonly FaultRecord[]): string[] {
  return counts(faults, ({ kind }) => kind).map(([kind, count]) => {
    const times = faults.flatMap((one) =>
      one.kind === kind && one.recoveredMs !== undefined ? [one.recoveredMs] : [],
    );
    const recovered =
      times.length === 0
        ? "-"
        : `${seconds(quantile(times, 0.5))} / ${seconds(Math.max(...times))} (${times.length})`;
    return `| ${kind} | ${count} | ${recovered} |`;
  });
}

const list = (title: string, items: readonly string[]) =>
  items.length === 0 ? [] : ["", `${title}:`, "", ...items.slice(0, 20).map((item) => `- ${item}`)];

/** What must be zero. */
export const broken = (result: ChaosResult): number =>
  result.lost.length +
  result.twice.length +
  result.objects.orphans.length +
  result.objects.absent.length +
  result.objects.unfinished.length +
  result.orphanProcesses.length +
  result.leftDirectories.length;

/** The report as people read it. */
export function chaosReport(result: ChaosResult, command: string): string {
  const { options, tally, jobs, faults, objects } = result;
  const attempts = jobs.reduce((sum, job) => sum + job.attempt, 0);
  const failed = jobs.filter(({ state }) => state === "failed");
  const accept = tally.accepted.map(({ acceptMs }) => acceptMs);
  const { gateway, platform, scheduler, compose } = options.size;
  return [
    "# Pulling plugs",
    "",
    `\`${command}\`: ${gateway} gateways, ${platform} platform nodes, ${scheduler} schedulers and ${compose} compose nodes as processes, with NATS, Redis, a store that speaks MongoDB's wire protocol (FerretDB) and a third-party S3 server.`,
    "",
    `${machineText()}; ${Math.round(result.durationMs / 1000)} s in all.`,
    "",
    "| | |",
    "| --- | ---: |",
    `| faults done | ${faults.length} |`,
    `| jobs accepted | ${tally.accepted.length} |`,
    `| of these renders | ${tally.accepted.filter(({ kind }) => kind === "timeline").length} |`,
    `| succeeded | ${jobs.filter(({ state }) => state === "success").length} |`,
    `| failed, with a reason | ${failed.length} |`,
    `| **lost** | **${result.lost.length}** |`,
    `| **committed or accepted twice** | **${result.twice.length}** |`,
    `| **orphan processes** | **${result.orphanProcesses.length}** |`,
    `| **orphan objects, unfinished uploads** | **${objects.orphans.length + objects.unfinished.length}** |`,
    `| outputs that are missing | ${objects.absent.length} |`,
    `| working directories left behind | ${result.leftDirectories.length} |`,
    `| attempts in all | ${attempts} |`,
    `| nodes lost under a running job | ${jobs.reduce((sum, job) => sum + job.nodesLost, 0)} |`,
    `| requests sent again after an error | ${result.requestRepeats} |`,
    `| keys sent twice at once | ${tally.repeats} |`,
    `| requests never accepted | ${tally.refused.length} |`,
    `| time to acceptance, p50 / p99 / longest | ${seconds(quantile(accept, 0.5))} / ${seconds(quantile(accept, 0.99))} / ${seconds(Math.max(0, ...accept))} |`,
    `| from the last repair until all had ended | ${seconds(result.settleMs)} |`,
    "",
    "Recovery: of a compose node, until none of its jobs was where it had been; of a leader, until another one answered.",
    "Median / longest (how many of the faults had something to recover).",
    "",
    "| fault | times | recovered |",
    "| --- | ---: | ---: |",
    ...faultRows(faults),
    ...(result.skipped > 0
      ? ["", `${result.skipped} more were drawn while their target was already hit, and left out.`]
      : []),
    ...(result.impossible.length > 0
      ? ["", `Not possible on this machine: ${result.impossible.join(", ")}.`]
      : []),
    ...list(
      "Reasons of failed jobs",
      counts(failed, ({ error }) => `${error?.type}: ${error?.message}`).map(
        ([reason, count]) => `${count} x ${reason}`,
      ),
    ),
    ...list("Requests never accepted", tally.refused),
    ...list("Lost", result.lost),
    ...list("Twice", result.twice),
    ...list("Orphan objects", objects.orphans),
    ...list("Unfinished uploads", objects.unfinished),
    ...list("Missing outputs", objects.absent),
    ...list("Left directories", result.leftDirectories),
    "",
  ].join("\n");
}

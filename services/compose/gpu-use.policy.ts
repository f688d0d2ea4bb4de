import type { NodeReport } from "../scheduler/job.types.ts";

/** A GPU with less use than this counts as idle. */
const idleBelowPercent = 5;

/**
 * Reads what `nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits` prints: one line for each GPU. One
 * that does not tell its use (`[N/A]`, as when it is partitioned) counts as idle.
 */
export function readGpuUse(text: string): NodeReport["gpu"] {
  const used = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => (Number.isFinite(Number(line)) ? Math.min(100, Math.max(0, Number(line))) : 0));
  const sum = used.reduce((total, percent) => total + percent, 0);
  return {
    count: used.length,
    idle: used.filter((percent) => percent < idleBelowPercent).length,
    usedPercent: used.length === 0 ? 0 : Math.round((sum / used.length) * 10) / 10,
  };
}

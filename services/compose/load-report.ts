import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { cpus, freemem, totalmem } from "node:os";
import { promisify } from "node:util";
import type { NodeReport } from "../scheduler/job.types.ts";
import type { ExecutionLimits } from "./config.ts";

type Load = Pick<NodeReport, "cpuPercent" | "memoryPercent" | "gpu">;

const execFileText = promisify(execFile);
const round = (percent: number) => Math.round(Math.min(100, Math.max(0, percent)) * 10) / 10;

const cpuTimes = () => {
  let busy = 0;
  let total = 0;
  for (const { times } of cpus()) {
    const all = times.user + times.nice + times.sys + times.idle + times.irq;
    total += all;
    busy += all - times.idle;
  }
  return { busy, total };
};

/** Memory that programs could still get; the system's cache counts as free where the system tells. */
async function memoryPercent(): Promise<number> {
  if (process.platform === "linux") {
    const text = await readFile("/proc/meminfo", "utf8").catch(() => "");
    const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1]);
    const used = 1 - of("MemAvailable") / of("MemTotal");
    if (Number.isFinite(used)) return round(used * 100);
  }
  return round((1 - freemem() / totalmem()) * 100);
}

/**
 * Load of this machine, measured when it is asked for and at most every few seconds. GPU use comes from
 * nvidia-smi; a machine without it is not asked again.
 */
export class LoadMeter {
  readonly #limits: ExecutionLimits;
  #cpuBefore = cpuTimes();
  #load: Load = { cpuPercent: 0, memoryPercent: 0, gpu: { count: 0, idle: 0, usedPercent: 0 } };
  #measuredAt = Number.NEGATIVE_INFINITY;
  #gpuAt = Number.NEGATIVE_INFINITY;
  #gpuMissing = false;

  constructor(limits: ExecutionLimits) {
    this.#limits = limits;
  }

  async read(): Promise<Load> {
    const now = performance.now();
    if (now - this.#measuredAt < this.#limits.loadMs) return this.#load;
    this.#measuredAt = now;
    const cpu = cpuTimes();
    const total = cpu.total - this.#cpuBefore.total;
    const cpuPercent = total > 0 ? round((100 * (cpu.busy - this.#cpuBefore.busy)) / total) : 0;
    this.#cpuBefore = cpu;
    const gpu = await this.#gpu(now);
    this.#load = { cpuPercent, memoryPercent: await memoryPercent(), gpu };
    return this.#load;
  }

  async #gpu(now: number): Promise<Load["gpu"]> {
    if (this.#gpuMissing || now - this.#gpuAt < this.#limits.gpuMs) return this.#load.gpu;
    this.#gpuAt = now;
    try {
      const { stdout } = await execFileText(
        "nvidia-smi",
        ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"],
        { timeout: 3_000 },
      );
      const used = stdout.split("\n").filter(Boolean).map(Number).filter(Number.isFinite);
      const mean = used.reduce((sum, percent) => sum + percent, 0) / Math.max(1, used.length);
      const idle = used.filter((percent) => percent < idleBelowPercent).length;
      return { count: used.length, idle, usedPercent: round(mean) };
    } catch (error) {
      this.#gpuMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
      return { count: 0, idle: 0, usedPercent: 0 };
    }
  }
}

/** A GPU with less use than this counts as idle. */
const idleBelowPercent = 5;

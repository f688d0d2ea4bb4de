import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { cpus, freemem, totalmem } from "node:os";
import { promisify } from "node:util";
import type { NodeReport } from "../scheduler/job.types.ts";
import type { ExecutionLimits } from "./config.ts";
import { readGpuUse } from "./gpu-use.policy.ts";

type Load = Pick<NodeReport, "cpuPercent" | "memoryPercent" | "gpu">;

const gpuQuery = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"];
const noGpu: Load["gpu"] = { count: 0, idle: 0, usedPercent: 0 };

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
  #load: Load = { cpuPercent: 0, memoryPercent: 0, gpu: noGpu };
  #gpu = noGpu;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #gpuAt = Number.NEGATIVE_INFINITY;
  #gpuMissing = false;

  constructor(limits: ExecutionLimits) {
    this.#limits = limits;
    void this.#lookAtGpus(performance.now());
  }

  async read(): Promise<Load> {
    const now = performance.now();
    if (now - this.#measuredAt < this.#limits.loadMs) return this.#load;
    this.#measuredAt = now;
    const cpu = cpuTimes();
    const total = cpu.total - this.#cpuBefore.total;
    const cpuPercent = total > 0 ? round((100 * (cpu.busy - this.#cpuBefore.busy)) / total) : 0;
    this.#cpuBefore = cpu;
    void this.#lookAtGpus(now);
    this.#load = { cpuPercent, memoryPercent: await memoryPercent(), gpu: this.#gpu };
    return this.#load;
  }

  /** Never waited for: a driver that hangs must not hold up heartbeats. */
  async #lookAtGpus(now: number): Promise<void> {
    if (this.#gpuMissing || now - this.#gpuAt < this.#limits.gpuMs) return;
    this.#gpuAt = now;
    try {
      const { stdout } = await execFileText("nvidia-smi", gpuQuery, { timeout: 3_000 });
      this.#gpu = readGpuUse(stdout);
    } catch (error) {
      this.#gpuMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
      this.#gpu = noGpu;
    }
  }
}

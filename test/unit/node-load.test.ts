import { describe, expect, test } from "@jest/globals";
import { executionLimits } from "../../services/compose/config.ts";
import { readGpuUse } from "../../services/compose/gpu-use.policy.ts";
import { LoadMeter } from "../../services/compose/load-report.ts";

describe("load of a node", () => {
  test.each([
    ["nothing", "", { count: 0, idle: 0, usedPercent: 0 }],
    ["one busy and one idle GPU", "87\n0\n", { count: 2, idle: 1, usedPercent: 43.5 }],
    ["a GPU that does not tell", "[N/A]\n", { count: 1, idle: 1, usedPercent: 0 }],
  ])("GPU use is read from %s", (_what, text, use) => {
    expect(readGpuUse(text)).toEqual(use);
  });

  test("a reading is a percentage, and is not repeated within its time", async () => {
    const meter = new LoadMeter(executionLimits);
    const first = await meter.read();
    expect(first.memoryPercent).toBeGreaterThan(0);
    expect(first.memoryPercent).toBeLessThanOrEqual(100);
    expect(first.cpuPercent).toBeGreaterThanOrEqual(0);
    expect(await meter.read()).toBe(first);
  });
});

import { describe, expect, test } from "@jest/globals";
import type { NodeReport } from "../../services/scheduler/job.types.ts";
import { NodeRegistry } from "../../services/scheduler/node-registry.ts";

const limits = { retiredBootsMax: 8, freshMs: 15_000, forgetMs: 600_000 };
const report = (boot: string): NodeReport => ({
  node: "n1",
  boot,
  kinds: ["noop"],
  slots: 1,
  cpuPercent: 0,
  memoryPercent: 0,
  gpu: { count: 0, idle: 0, usedPercent: 0 },
  draining: false,
});

// Found by the simulation (seeds 468, 614, 1134): a heartbeat that overtook a crash came after that of the next run.
describe("node registry", () => {
  test("a late report of a run that the scheduler never knew does not displace the run after it", () => {
    const registry = new NodeRegistry(limits);
    registry.report(report("run-2"), 0);
    expect(registry.report(report("run-1"), 100)).toBe("late");
    expect(registry.report(report("run-2"), 5_000)).toBe("same");
  });

  test("a run that was taken for an earlier one is believed once the other is silent", () => {
    const registry = new NodeRegistry(limits);
    registry.report(report("run-1"), 0);
    registry.report(report("run-2"), 1_000);
    expect(registry.report(report("run-1"), 10_000)).toBe("late");
    expect(registry.report(report("run-1"), 17_000)).toBe("new-boot");
    expect(registry.report(report("run-1"), 18_000)).toBe("same");
    expect(registry.bootOf("n1")).toBe("run-1");
  });

  // Its list is too old to tell which slots are free. The same one twice is no news and no harm.
  test("a report that a later one has overtaken is not believed", () => {
    const registry = new NodeRegistry(limits);
    registry.report({ ...report("run-1"), beat: 2 }, 0);
    expect(registry.report({ ...report("run-1"), beat: 1 }, 100)).toBe("late");
    expect(registry.report({ ...report("run-1"), beat: 2 }, 200)).toBe("same");
    expect(registry.report({ ...report("run-1"), beat: 3 }, 300)).toBe("same");
  });
});

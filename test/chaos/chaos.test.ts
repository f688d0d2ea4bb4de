import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "@jest/globals";
import { broken, chaosReport } from "../../scripts/chaos/chaos-report.ts";
import { chaosRun } from "../../scripts/chaos/chaos-run.ts";
import { ownServersForTests } from "../support/servers.ts";

const servers = await ownServersForTests("nats", "redis", "mongo", "s3");
let dir: string | undefined;
afterEach(async () => {
  if (dir) await rm(dir, { recursive: true, force: true });
});

servers.describe("a cluster whose parts are killed, frozen and restarted", () => {
  test("loses no job, commits none twice and leaves nothing behind", async () => {
    dir = await mkdtemp(join(tmpdir(), "reelmesh-chaos-"));
    const result = await chaosRun({
      seed: 7,
      faults: 6,
      jobs: 60,
      overMs: 20_000,
      dir,
      only: [
        "kill-compose",
        "kill-leader",
        "kill-gateway",
        "restart-nats",
        "restart-database",
        "restart-s3",
      ],
      size: { gateway: 2, platform: 1, scheduler: 2, compose: 2 },
      log: () => {},
    });
    const report = chaosReport(result, "npm test");
    expect({ broken: broken(result), report }).toEqual({ broken: 0, report });
    expect(result.tally.accepted.length + result.tally.refused.length).toBe(60);
    expect(result.tally.accepted.length).toBeGreaterThan(50);
    expect(result.faults.length).toBe(6);
    expect(result.jobs.every(({ state }) => state === "success" || state === "failed")).toBe(true);
  }, 400_000);
});

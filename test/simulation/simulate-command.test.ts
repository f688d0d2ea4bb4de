import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "@jest/globals";
import { invariants } from "./checkers.ts";

const script = fileURLToPath(new URL("../../scripts/simulate.ts", import.meta.url));

const simulate = (...args: string[]) =>
  new Promise<{ status: number; output: string }>((resolve) => {
    execFile(process.execPath, ["--no-warnings", script, ...args], (error, stdout, stderr) => {
      resolve({ status: error ? Number(error.code) : 0, output: stdout + stderr });
    });
  });

describe("npm run simulate", () => {
  test("prints the invariants that it checked and how fast it was", async () => {
    const { status, output } = await simulate("--seed", "5", "--runs", "20");
    expect(status).toBe(0);
    for (const name of Object.keys(invariants)) expect(output).toContain(name);
    expect(output).toMatch(/20 runs, .* scenarios\/s/);
    expect(output).toContain("No violation.");
  });

  test("prints seed and shortest history of a violation, and succeeds when a rule was broken on purpose", async () => {
    const { status, output } = await simulate("--break", "attempts-start-over", "--runs", "50");
    expect(status).toBe(0);
    expect(output).toMatch(/VIOLATION of "attempts" with seed \d+/);
    expect(output).toMatch(/npm run simulate -- --seed \d+ --runs 1 --break attempts-start-over/);
    expect(output).toContain("Shortest history found");
  });

  test("a wrong option is refused with what would be right", async () => {
    expect(await simulate("--runs", "many")).toMatchObject({
      status: 2,
      output: expect.stringContaining("--runs: many is not a whole number"),
    });
    expect(await simulate("--break", "nothing")).toMatchObject({
      status: 2,
      output: expect.stringContaining("known: ack-before-disk"),
    });
  });
});

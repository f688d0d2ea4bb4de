import { type ChildProcess, spawn } from "node:child_process";
import { afterEach, describe, expect, test } from "@jest/globals";
import { executionLimits } from "../../services/compose/config.ts";
import type { ProcessIdentity } from "../../services/compose/node-ports.ts";
import {
  identify,
  isSameProcess,
  killLeftovers,
  markVariable,
  runInGroup,
} from "../../services/compose/process-group.ts";

const limits = { ...executionLimits, killGraceMs: 300 };
const left: ChildProcess[] = [];
afterEach(() => {
  for (const child of left.splice(0)) child.kill("SIGKILL");
});

/** Starts a shell that starts a child of its own; answers once both run. */
async function startFamily(script: string, abort: AbortController) {
  const told: { identity?: ProcessIdentity } = {};
  let childPid = 0;
  const { promise: ready, resolve } = Promise.withResolvers<void>();
  const run = runInGroup("sh", ["-c", script], {
    signal: abort.signal,
    mark: "test",
    limits,
    started: async (identity) => {
      told.identity = identity;
    },
    onLine: (line) => {
      childPid = Number(line);
      resolve();
    },
  });
  const ended = run.catch((error: Error) => error);
  await Promise.race([ready, run]);
  const child = (await identify(childPid)) as ProcessIdentity;
  return { shell: told.identity as ProcessIdentity, child, childPid, ended };
}

describe("process group", () => {
  test("an abort ends a program together with the child that it started", async () => {
    const abort = new AbortController();
    const family = await startFamily("sleep 300 & echo $!; wait", abort);
    expect(await isSameProcess(family.child)).toBe(true);
    abort.abort();
    await expect(family.ended).resolves.toMatchObject({ name: "AbortError" });
    expect(await isSameProcess(family.shell)).toBe(false);
    expect(await isSameProcess(family.child)).toBe(false);
  });

  test("a program that ignores the request to end is forced", async () => {
    const abort = new AbortController();
    const script = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $!; wait";
    const family = await startFamily(script, abort);
    abort.abort();
    await family.ended;
    expect(await isSameProcess(family.shell)).toBe(false);
    expect(await isSameProcess(family.child)).toBe(false);
  });

  test("a child that outlives its program is ended with it", async () => {
    const family = await startFamily("sleep 300 & echo $!", new AbortController());
    await expect(family.ended).resolves.toMatchObject({ code: 0 });
    expect(await identify(family.childPid)).toBeUndefined();
  });

  test("the process is recorded before its output is read, and the end of standard error is kept", async () => {
    const events: string[] = [];
    const exit = await runInGroup("sh", ["-c", "echo out; echo reason >&2; sleep 0.2; exit 3"], {
      signal: new AbortController().signal,
      mark: "test",
      limits,
      started: async () => {
        await new Promise((resolve) => setImmediate(resolve));
        events.push("recorded");
      },
      onLine: (line) => events.push(line),
    });
    expect(events).toEqual(["recorded", "out"]);
    expect(exit).toEqual({ code: 3, signal: null, stderrTail: "reason\n" });
  });

  test("a program that does not exist is refused by name", async () => {
    const run = runInGroup("no-such-program-here", [], {
      signal: new AbortController().signal,
      mark: "test",
      limits,
      started: async () => undefined,
    });
    await expect(run).rejects.toMatchObject({
      type: "UNAVAILABLE",
      message: expect.stringContaining("no-such-program-here"),
    });
  });
});

describe("leftovers of an earlier run", () => {
  const start = async (mark: string) => {
    const child = spawn("sleep", ["300"], {
      detached: true,
      stdio: "ignore",
      env: { ...process.env, [markVariable]: mark },
    });
    left.push(child);
    return (await identify(child.pid as number)) as ProcessIdentity;
  };

  test("a recorded process is killed", async () => {
    const recorded = await start("other");
    await killLeftovers([recorded], "no-such-mark", 300);
    expect(await isSameProcess(recorded)).toBe(false);
  });

  test("another process that got the number since is left alone", async () => {
    const stranger = await start("stranger");
    await killLeftovers([{ pid: stranger.pid, startMark: "earlier" }], "no-such-mark", 300);
    expect(await isSameProcess(stranger)).toBe(true);
  });

  (process.platform === "linux" ? test : test.skip)(
    "a process that did not get into the journal is found by its mark",
    async () => {
      const mark = `mark-${process.pid}-${Date.now()}`;
      const unrecorded = await start(mark);
      await killLeftovers([], mark, 300);
      expect(await isSameProcess(unrecorded)).toBe(false);
    },
  );
});

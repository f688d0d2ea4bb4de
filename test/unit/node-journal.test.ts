import { spawn } from "node:child_process";
import { appendFile, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { FileJournal } from "../../services/compose/node-journal.ts";
import type { JournalEntry } from "../../services/compose/node-ports.ts";

let dir: string;
const opened: FileJournal[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-journal-"));
});
afterEach(async () => {
  for (const journal of opened.splice(0)) await journal.close();
  await rm(dir, { recursive: true });
});

const open = async (linesMax = 1_000) => {
  const journal = await FileJournal.open(dir, linesMax);
  opened.push(journal);
  return journal;
};
const entry = (jobId: string, attempt = 1): JournalEntry => ({
  jobId,
  attempt,
  kind: "noop",
  node: "n1",
  boot: "b1",
  processes: [],
  released: false,
});

/** Makes a journal look like that of a process which was killed: its text stays, its owner is dead. */
async function orphan(): Promise<void> {
  const child = spawn("true");
  const pid = child.pid as number;
  await new Promise((resolve) => child.once("exit", resolve));
  for (const name of await readdir(dir)) {
    const text = await readFile(join(dir, name), "utf8");
    const [first, ...rest] = text.split("\n");
    const owner = { ...JSON.parse(first as string), owner: { pid, startMark: "gone" } };
    await writeFile(join(dir, `dead-${name}`), [JSON.stringify(owner), ...rest].join("\n"));
  }
}

describe("node journal", () => {
  test("a new process takes over what a killed one left, with its processes and releases", async () => {
    const first = await open();
    await Promise.all([first.add(entry("a")), first.add(entry("b", 2)), first.add(entry("c"))]);
    await first.addProcess({ jobId: "a", attempt: 1 }, { pid: 7, startMark: "m" });
    await first.release({ jobId: "b", attempt: 2 });
    await first.remove({ jobId: "c", attempt: 1 });
    await orphan();
    const second = await open();
    expect(second.entries()).toEqual([
      { ...entry("a"), processes: [{ pid: 7, startMark: "m" }] },
      { ...entry("b", 2), released: true },
    ]);
    expect((await readdir(dir)).filter((name) => name.startsWith("dead-"))).toEqual([]);
  });

  test("the journal of a process that lives is not touched", async () => {
    const first = await open();
    await first.add(entry("a"));
    expect((await open()).entries()).toEqual([]);
  });

  test("a line that a crash cut short is as if never written", async () => {
    const first = await open();
    await first.add(entry("a"));
    await orphan();
    const dead = (await readdir(dir)).find((name) => name.startsWith("dead-")) as string;
    await appendFile(join(dir, dead), '{"add":{"jobId":"b","att');
    expect((await open()).entries()).toEqual([entry("a")]);
  });

  test("rewriting the file when it has grown keeps what is open, and the file stays short", async () => {
    const first = await open(100);
    await first.add(entry("kept"));
    for (let n = 0; n < 200; n += 1) {
      await first.add(entry(`job-${n}`));
      await first.remove({ jobId: `job-${n}`, attempt: 1 });
    }
    const [name] = await readdir(dir);
    const lines = (await readFile(join(dir, name as string), "utf8")).split("\n").length;
    expect(lines).toBeLessThan(120);
    await orphan();
    expect((await open()).entries()).toEqual([entry("kept")]);
  });

  test("a journal with nothing open leaves no file", async () => {
    const first = await open();
    await first.add(entry("a"));
    await first.remove({ jobId: "a", attempt: 1 });
    await first.close();
    expect(await readdir(dir)).toEqual([]);
  });
});

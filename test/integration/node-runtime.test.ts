import { randomUUID } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "@jest/globals";
import { type ComposeNode, startComposeNode } from "../support/compose-node.ts";
import { until } from "../support/until.ts";

let node: ComposeNode | undefined;
afterEach(async () => {
  await node?.stop();
  node = undefined;
});

const heard = (action: string) =>
  (node as ComposeNode).scheduler.heard.filter((said) => said.action === action);

async function order(payload: Record<string, unknown>, attempt = 1, jobId = randomUUID()) {
  const { boot } = await (node as ComposeNode).call("compose.probe", {});
  return { jobId, attempt, kind: "noop", payload, owner: "system:test", leaseMs: 20_000, boot };
}

describe("compose node", () => {
  test("stores the output under the attempt, reports its hash and leaves no work directory", async () => {
    node = await startComposeNode();
    const begin = await order({ output: "done" });
    await expect(node.call("compose.begin", begin)).resolves.toEqual({ outcome: "accepted" });
    await until(() => heard("scheduler.complete").length === 1);
    const key = `jobs/${begin.jobId}/1/output.txt`;
    expect(heard("scheduler.complete")[0]?.params).toMatchObject({
      jobId: begin.jobId,
      attempt: 1,
      node: "node-under-test",
      boot: begin.boot,
      result: {
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        outputs: [{ bucket: node.config.OSS_BUCKET_NAME, key, bytes: 4, role: "media" }],
      },
    });
    const stat = await node.call("storage.stat", { bucket: node.config.OSS_BUCKET_NAME, key });
    expect(stat).toMatchObject({ bytes: 4, contentType: "text/plain; charset=utf-8" });
    expect(await readdir(join(node.config.DATA_DIR, "work"))).toEqual([]);
  });

  test("an answer that says fenced removes the output", async () => {
    node = await startComposeNode(
      {},
      { heard: [], answers: { complete: () => ({ outcome: "fenced" }) } },
    );
    const begin = await order({ output: "late" });
    await node.call("compose.begin", begin);
    const object = {
      bucket: node.config.OSS_BUCKET_NAME,
      key: `jobs/${begin.jobId}/1/output.txt`,
    };
    await until(async () => {
      if (heard("scheduler.complete").length === 0) return false;
      return (node as ComposeNode).call("storage.stat", object).then(
        () => false,
        (error) => error.type === "OBJECT_NOT_FOUND",
      );
    });
  });

  test("a payload that its kind refuses fails for good and names the field", async () => {
    node = await startComposeNode();
    await node.call("compose.begin", await order({ ms: -1 }));
    await until(() => heard("scheduler.fail").length === 1);
    expect(heard("scheduler.fail")[0]?.params).toMatchObject({
      retryable: false,
      error: { type: "INVALID_INPUT", message: expect.stringContaining("ms:") },
    });
  });

  test("a stop of the node hands running work back and leaves nothing", async () => {
    const started = await startComposeNode();
    node = started;
    const begin = await order({ ms: 60_000 });
    await node.call("compose.begin", begin);
    const { heard: said } = node.scheduler;
    await until(() =>
      said.some(
        ({ action, params }) => action === "scheduler.heartbeat" && params.attempts.length === 1,
      ),
    );
    await node.stop();
    node = undefined;
    expect(said.filter(({ action }) => action === "scheduler.handBack")).toEqual([
      expect.objectContaining({
        params: expect.objectContaining({
          cause: "drain",
          attempts: [{ jobId: begin.jobId, attempt: 1 }],
        }),
      }),
    ]);
  });
});

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { ServiceBroker } from "moleculer";
import { type ServiceHost, systemCall } from "../../lib/service.ts";
import { meshHost } from "../../services/compose/attempt-host.ts";
import { executionLimits } from "../../services/compose/config.ts";
import { makeTools, type ToolsContext } from "../../services/compose/executor-tools.ts";

let dir: string;
let broker: ServiceBroker;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-late-storage-"));
  broker = new ServiceBroker({ logger: false });
  await broker.start();
});
afterEach(async () => {
  await broker.stop();
  await rm(dir, { recursive: true, force: true });
});

const tools = (limits = executionLimits, signal = new AbortController().signal) =>
  makeTools({
    host: meshHost({ broker, call: systemCall(broker) } as unknown as ServiceHost, limits),
    order: { jobId: "j", attempt: 1 },
    workDir: dir,
    signal,
    limits,
  } as unknown as ToolsContext);
const source = { bucket: "reelmesh", key: "a.jpg" };

test("a job that begins before the object storage is up waits for it instead of failing", async () => {
  const file = join(dir, "a.jpg");
  const download = tools().download(source, file);
  broker.createService({
    name: "storage",
    actions: {
      stat: () => ({ bytes: 7, etag: "t" }),
      read: () => Readable.from([Buffer.from("picture")]),
    },
  });
  await download;
  expect(await readFile(file, "utf8")).toBe("picture");
});

test("storage that does not come is named, to be tried again", async () => {
  const impatient = { ...executionLimits, storageWaitMs: 200 };
  await expect(tools(impatient).download(source, join(dir, "a"))).rejects.toMatchObject({
    type: "UNAVAILABLE",
  });
});

test("a cancelled job does not wait for storage", async () => {
  const stopped = tools(executionLimits, AbortSignal.abort(new Error("cancelled")));
  await expect(stopped.download(source, join(dir, "a"))).rejects.toThrow("cancelled");
});

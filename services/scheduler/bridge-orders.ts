import { asAppError } from "../../lib/errors.ts";
import { outputPrefix } from "../../lib/job-output-key.ts";
import type { ServiceHost } from "../../lib/service.ts";
import { namedSources, replaceSources } from "../compose/bridge.sources.ts";
import { ContactSheetPayload } from "../compose/contact-sheet.payload.ts";
import { sourceContext } from "../compose/media/own-origins.ts";
import { readSource, type SourceContext } from "../compose/media/source.policy.ts";
import type { AttemptOrder } from "../compose/standalone/bridge-wire.ts";
import type { LinkPorts } from "./bridge-link.ts";
import { bridgeLimits, schedulerConfig } from "./config.ts";
import type { JobError, JobResult, StartOrder } from "./job.types.ts";

interface ObjectRef {
  bucket: string;
  key: string;
}

type Host = Pick<ServiceHost, "config" | "call">;

const timeout = schedulerConfig.nodeCallMs;
const addressesOf = ({ call }: Host) => call("storage.addresses", {}, { timeout });

/** The storage's side of a link to a bridge: a bridge outside the mesh sees objects by signed links alone. */
export const storagePorts = (
  host: Host,
): Pick<LinkPorts, "prepare" | "check" | "uploadLink" | "discardOutput"> => ({
  prepare: (order) => prepare(host, order),
  check: (key, result) => check(host, outputPrefix(key), result),
  async uploadLink(of, { name, bytes, md5 }) {
    const { bucket } = await addressesOf(host);
    const asked = { bucket, key: outputPrefix(of) + name, bytes, md5 };
    return (await host.call("storage.uploadLink", asked, { timeout })).url;
  },
  async discardOutput(key) {
    const { bucket } = await addressesOf(host);
    await host.call("storage.removePrefix", { bucket, prefix: outputPrefix(key) }, { timeout });
  },
});

/** What a task names in our storage, and the task with each of these named by bucket and key. */
function objectsOf({ kind, payload }: StartOrder, context: SourceContext) {
  const objects = new Map<string, ObjectRef>();
  const note = ({ bucket, key }: ObjectRef) => {
    const name = `oss://${bucket}/${key}`;
    objects.set(name, { bucket, key });
    return name;
  };
  const sheet = kind === "contact-sheet" ? ContactSheetPayload.safeParse(payload) : undefined;
  if (sheet?.success) note(sheet.data);
  const named = new Map<string, string>();
  for (const { src } of namedSources(payload)) {
    const source = readSource(src, context);
    if ("type" in source && source.type === "object") named.set(src, note(source));
  }
  const task = replaceSources(payload, (src) => named.get(src) ?? src);
  return { task, objects: [...objects.values()] };
}

async function prepare(host: Host, order: StartOrder): Promise<AttemptOrder> {
  const own = await addressesOf(host);
  const { task, objects } = objectsOf(order, sourceContext(host.config, own));
  const { inputLinkSeconds: expires, linksAtOnce } = bridgeLimits;
  const inputs: AttemptOrder["attempt"]["inputs"] = [];
  const worker = async () => {
    for (let object = objects.shift(); object; object = objects.shift()) {
      const { url } = await host.call("storage.link", { ...object, expires }, { timeout });
      inputs.push({ ...object, url });
    }
  };
  await Promise.all(Array.from({ length: linksAtOnce }, worker));
  const { jobId, attempt, kind, owner, leaseMs, boot, trace } = order;
  return {
    kind,
    payload: task,
    attempt: {
      job_id: jobId,
      number: attempt,
      lease_ms: leaseMs,
      boot,
      owner,
      trace,
      bucket: own.bucket,
      inputs,
    },
  };
}

/** A result counts when its outputs lie where they belong and are as large as it says. */
async function check(
  host: Host,
  prefix: string,
  { outputs }: JobResult,
): Promise<JobError | undefined> {
  const own = await addressesOf(host);
  for (const { bucket, key, bytes } of outputs) {
    if (bucket !== own.bucket || !key.startsWith(prefix))
      return wrong(`the bridge names an output that is not its own: ${bucket}/${key}`);
    const stored = await host
      .call("storage.stat", { bucket, key }, { timeout })
      .catch((error: unknown) => {
        if (asAppError(error)?.type !== "OBJECT_NOT_FOUND") throw error;
      });
    if (stored?.bytes !== bytes)
      return wrong(
        stored
          ? `the bridge tells of ${bytes} bytes in ${key}, of which ${stored.bytes} are stored`
          : `the bridge tells of an output that is not stored: ${key}`,
      );
  }
  return undefined;
}

const wrong = (message: string): JobError => ({
  type: "RENDER_INEXACT",
  message,
  data: { reason: message },
});

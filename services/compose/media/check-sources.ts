import type { Config } from "../../../lib/config.ts";
import { AppError, asAppError } from "../../../lib/errors.ts";
import { hostRefusal, readFetchAllow } from "../../../lib/net/address.policy.ts";
import type { TypedCall } from "../../../lib/service.ts";
import type { OwnAddresses } from "../../storage/storage.contract.ts";
import { mediaLimits } from "./config.ts";
import { sourceContext } from "./own-origins.ts";
import { readSource, type Source } from "./source.policy.ts";

export interface NamedSource {
  /** Path of the clip as the client wrote it: `timeline.tracks[0].clips[2].src`. */
  clip: string;
  src: string;
}

/** What is wrong with a source as written, without asking anybody. */
function refuseAsWritten(
  { clip, src }: NamedSource,
  config: Config,
  own: OwnAddresses | undefined,
): Source {
  const source = readSource(src, sourceContext(config, own));
  if ("reason" in source)
    throw new AppError("INVALID_INPUT", { reason: `${clip}: ${source.reason}`, clip });
  if (source.type === "url") {
    const refusal = hostRefusal(source.host, readFetchAllow(config.FETCH_ALLOW));
    if (refusal)
      throw new AppError("ADDRESS_FORBIDDEN", {
        host: source.host,
        reason: `${clip} leads to ${refusal}; an operator can permit it with FETCH_ALLOW`,
        clip,
      });
  }
  return source;
}

/**
 * Says before a job is accepted what is already known to be wrong with its sources: what is no address,
 * leads into a private network, climbs out of the bucket, or names an object that is not there.
 * @throws AppError INVALID_INPUT, ADDRESS_FORBIDDEN or MEDIA_UNREADABLE, naming the clip.
 */
export async function checkSources(
  sources: readonly NamedSource[],
  config: Config,
  call: TypedCall,
): Promise<void> {
  const objects = new Map<string, { clip: string; bucket: string; key: string }>();
  // Storage that cannot be asked now is no fault of the request: then only this node's own links are known.
  const own = await call("storage.addresses", {}).catch(() => undefined);
  for (const named of sources) {
    const source = refuseAsWritten(named, config, own);
    if (source.type !== "object") continue;
    const { bucket, key } = source;
    const id = `${bucket}/${key}`;
    if (!objects.has(id)) objects.set(id, { clip: named.clip, bucket, key });
  }
  const waiting = [...objects.values()];
  const worker = async () => {
    for (let object = waiting.shift(); object; object = waiting.shift()) {
      const { clip, bucket, key } = object;
      await call("storage.stat", { bucket, key }).catch((error) => {
        // Storage that cannot be asked now is no fault of the request: the node will see.
        if (asAppError(error)?.type !== "OBJECT_NOT_FOUND") return;
        throw new AppError("MEDIA_UNREADABLE", {
          clip,
          expected: "media",
          reason: `there is no object ${bucket}/${key}`,
        });
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(8, mediaLimits.parallelMax * 2) }, worker));
}

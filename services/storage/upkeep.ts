import { setTimeout as pause } from "node:timers/promises";
import { type DependencyReporter, dependenciesOf } from "../../lib/dependency-state.ts";
import type { ServiceHost } from "../../lib/service.ts";
import { storageLimits } from "./config.ts";
import type { ObjectStore } from "./object-store.ts";

export interface Upkeep {
  stop(): Promise<void>;
}

/**
 * Looks after the bucket as long as the node runs: makes it where it is missing, ends uploads of processes that
 * died, and tells `/readyz` whether the server answers. One that is away now is asked again until it is back.
 */
export async function keepUp(
  { config, logger }: Pick<ServiceHost, "config" | "logger">,
  store: ObjectStore,
): Promise<Upkeep> {
  const bucket = config.OSS_BUCKET_NAME;
  const look = store.upkeep?.bind(store);
  if (!look) {
    await store.ensureBucket(bucket);
    return { stop: async () => {} };
  }
  const state: DependencyReporter = dependenciesOf(config).declare("s3", {
    degrades: "Objects cannot be read or stored; jobs wait for them.",
  });
  let wasUp = true;
  const once = async (): Promise<boolean> => {
    try {
      await look(bucket, Date.now());
      if (!wasUp) logger.info(`bucket ${bucket}: the object storage answers again`);
      state.up();
      wasUp = true;
    } catch (error) {
      const { message } = error as Error;
      if (wasUp) logger.warn(`bucket ${bucket}: ${message}`);
      state.down(message);
      wasUp = false;
    }
    return wasUp;
  };
  // A server that is away for the moment must not keep the node from starting.
  await once();
  const stopping = new AbortController();
  const { signal } = stopping;
  const rounds = (async () => {
    while (!signal.aborted) {
      const inMs = wasUp ? storageLimits.upkeepMs : storageLimits.upkeepRetryMs;
      await pause(inMs, undefined, { signal, ref: false }).catch(() => undefined);
      if (!signal.aborted) await once();
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await rounds;
      state.withdraw();
    },
  };
}

import type { ServiceBroker } from "moleculer";

/** Limits of the cache of records. */
export const cacheLimits = {
  /** An entry ends after this time, whatever happens: the longest that anybody sees what is no longer so. */
  entrySeconds: 30,
  /** A longer answer is not kept: it would cost more room than it saves work. In characters of JSON. */
  entryCharsMax: 64 * 1024,
  /** Entries that a process keeps where there is no Redis: at most 64 MiB. */
  entriesMax: 1_000,
} as const;

/**
 * What services of resources use of the broker's cacher. An answer that was under way when its resource changed is not
 * taken for one from after the change: entries belong to a generation of their resource, and each change begins
 * another. Nothing here fails or waits for long: without a cache the store answers.
 */
export interface RecordCache {
  /**
   * The answer that is kept under this key since the last change of the resource, else what `load` answers.
   * @param key All that the answer depends on, whoever asks included where that matters.
   */
  through<T>(resource: string, key: string, load: () => Promise<T>): Promise<T>;
  /**
   * To be called after each change, before it is answered.
   * @returns whether nodes that share this cache know by it.
   */
  changed(resource: string): Promise<boolean>;
  /** Another node says that the resource changed; `shared`: what it shares with this one knows already. */
  heard(resource: string, shared: boolean): void;
}

/** The broker's cacher, where it is one for records. */
export function recordCacheOf({ cacher }: ServiceBroker): RecordCache | undefined {
  const cache = cacher as Partial<RecordCache> | null | undefined;
  return cache?.through ? (cache as RecordCache) : undefined;
}

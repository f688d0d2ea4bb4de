import { Cachers } from "moleculer";
import { cacheLimits, type RecordCache } from "./record-cache.ts";

/** Moleculer's cache in memory, for records. Other nodes are told of changes by events. */
export class MemoryRecordCache extends Cachers.MemoryLRU implements RecordCache {
  readonly #generations = new Map<string, number>();

  constructor() {
    // No ttl here: with one, each use would make an entry live longer. Each entry has its own instead.
    super({ max: cacheLimits.entriesMax });
  }

  async through<T>(resource: string, key: string, load: () => Promise<T>): Promise<T> {
    const place = `${resource}.${this.#generation(resource)}:${key}`;
    // As text: nobody gets hold of an object that others get too.
    const kept = (await this.get(place)) as unknown as string | undefined;
    if (kept !== undefined) return JSON.parse(kept);
    const answer = await load();
    const text = JSON.stringify(answer);
    if (text.length <= cacheLimits.entryCharsMax)
      await this.set(place, text, cacheLimits.entrySeconds);
    return answer;
  }

  #generation(resource: string): number {
    const generation = this.#generations.get(resource) ?? 0;
    this.#generations.set(resource, generation);
    return generation;
  }

  /** Moleculer calls it, with no argument, when a lost transporter is back: events may have been missed. */
  override clean(match?: string | string[]): Promise<void> {
    // Also what is being read now must not be kept.
    for (const resource of this.#generations.keys()) void this.changed(resource);
    return super.clean(match);
  }

  async changed(resource: string): Promise<boolean> {
    this.#generations.set(resource, this.#generation(resource) + 1);
    return false;
  }

  heard(resource: string): void {
    void this.changed(resource);
  }
}

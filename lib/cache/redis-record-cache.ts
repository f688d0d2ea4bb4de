import { randomBytes } from "node:crypto";
import { Cachers, type ServiceBroker } from "moleculer";
import type { Config } from "../config.ts";
import { acquireRedis, type RedisHandle } from "../redis.ts";
import { cacheLimits, type RecordCache } from "./record-cache.ts";

const generationKey = (resource: string) => `cache:${resource}`;
const entryKey = (resource: string, key: string) => `cache:${resource}:${key}`;
const fresh = () => randomBytes(12).toString("base64url");

/**
 * Records in Redis, for all nodes. The generation of a resource stands in Redis under a random name, and an entry begins
 * with the one that was read before its answer was. So a change is one SET, however much is kept, and an answer from
 * before the change is never taken for a later one. Moleculer's own cacher for Redis searches all keys at each change,
 * keeps an older answer that comes late, waits for a server that hangs, and fails the read when Redis does.
 */
export class RedisRecordCache extends Cachers.Redis implements RecordCache {
  readonly #config: Config;
  /** Resources that this node has read or changed. */
  readonly #resources = new Set<string>();
  #redis: RedisHandle | undefined;
  /** False from the loss of the connection until Redis has heard of what it may have missed. */
  #trusted = false;

  constructor(config: Config) {
    super({});
    this.#config = config;
  }

  /** Not that of Moleculer's class, which opens a connection of its own. */
  override init(broker: ServiceBroker): void {
    Cachers.Base.prototype.init.call(this, broker);
    // Moleculer's caching of whole actions stays off: it would answer before it is checked who may ask.
    this.connected = false;
    const redis = acquireRedis(this.#config, "Records are read from the store each time.");
    this.#redis = redis;
    redis?.onLost(() => {
      this.#trusted = false;
    });
    // Commands are carried out in their order: what is read after this finds the new generations.
    redis?.onReady(() => {
      for (const resource of this.#resources) void this.changed(resource);
      this.#trusted = true;
    });
  }

  override async close(): Promise<void> {
    await this.#redis?.release();
  }

  async through<T>(resource: string, key: string, load: () => Promise<T>): Promise<T> {
    this.#resources.add(resource);
    const client = this.#trusted ? this.#redis?.client : undefined;
    if (!client) return load();
    const place = entryKey(resource, key);
    const [known, kept] = await client
      .mget(generationKey(resource), place)
      .catch(() => [undefined, undefined]);
    // No answer from Redis.
    if (known === undefined) return load();
    const generation = known ?? (await this.#begin(resource));
    if (generation === undefined) return load();
    if (kept?.startsWith(generation)) return JSON.parse(kept.slice(generation.length));
    const answer = await load();
    const text = JSON.stringify(answer);
    if (text.length <= cacheLimits.entryCharsMax)
      void client
        .set(place, `${generation}${text}`, "EX", cacheLimits.entrySeconds)
        .catch(() => undefined);
    return answer;
  }

  /** The first generation of a resource in a Redis that does not know it: that of the first node to say so. */
  async #begin(resource: string): Promise<string | undefined> {
    const client = this.#redis!.client;
    const key = generationKey(resource);
    try {
      await client.set(key, fresh(), "NX");
      return (await client.get(key)) ?? undefined;
    } catch {
      return undefined;
    }
  }

  async changed(resource: string): Promise<boolean> {
    this.#resources.add(resource);
    const setting = this.#redis?.client.set(generationKey(resource), fresh());
    return (await setting?.catch(() => undefined)) === "OK";
  }

  heard(resource: string, shared: boolean): void {
    // The node that made the change could not tell Redis: whoever can does.
    if (!shared) void this.changed(resource);
  }

  /** For Moleculer's own commands on caches: `agent.app.**` or all. */
  override async clean(match: string | string[] = "**"): Promise<void> {
    const names = [match].flat().map((one) => one.replace(/\.?\*+$/, ""));
    for (const resource of this.#resources)
      if (names.some((name) => name === "" || resource === name || resource.startsWith(`${name}.`)))
        await this.changed(resource);
  }
}

import { LRUCache } from "lru-cache";
import { AppError } from "../../lib/errors.ts";
import type { RedisHandle } from "../../lib/redis.ts";

/** Short texts that end by themselves, changed by compare-and-set: what decides about them is pure, and written once. */
export interface ExpiringTexts {
  read(key: string): Promise<string | undefined>;
  /**
   * Replaces the text, if it still is `before` (undefined: there is none). `after` lasts `ttlMs`; undefined removes.
   * @returns whether it was replaced.
   */
  swap(
    key: string,
    before: string | undefined,
    after: string | undefined,
    ttlMs: number,
  ): Promise<boolean>;
}

/** In this process; the least used beyond `max` go. */
export class MemoryTexts implements ExpiringTexts {
  readonly #texts: LRUCache<string, string>;
  constructor(max: number) {
    this.#texts = new LRUCache({ max });
  }

  async read(key: string): Promise<string | undefined> {
    return this.#texts.get(key);
  }

  async swap(
    key: string,
    before: string | undefined,
    after: string | undefined,
    ttlMs: number,
  ): Promise<boolean> {
    if (this.#texts.get(key) !== before) return false;
    if (after === undefined) this.#texts.delete(key);
    else this.#texts.set(key, after, { ttl: ttlMs });
    return true;
  }
}

/** No text of ours is empty, so that an empty one can stand for none. */
const SWAP = `
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1])
else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1`;

type WithSwap = RedisHandle["client"] & {
  reelmeshSwap(key: string, before: string, after: string, ttlMs: number): Promise<number>;
};

/** In Redis, for all nodes. Fails while Redis is away. */
export class RedisTexts implements ExpiringTexts {
  readonly #client: WithSwap;
  readonly #prefix: string;
  constructor({ client }: RedisHandle, prefix: string) {
    client.defineCommand("reelmeshSwap", { numberOfKeys: 1, lua: SWAP });
    this.#client = client as WithSwap;
    this.#prefix = prefix;
  }

  async read(key: string): Promise<string | undefined> {
    return (await this.#client.get(`${this.#prefix}:${key}`)) ?? undefined;
  }

  async swap(
    key: string,
    before: string | undefined,
    after: string | undefined,
    ttlMs: number,
  ): Promise<boolean> {
    const place = `${this.#prefix}:${key}`;
    return (await this.#client.reelmeshSwap(place, before ?? "", after ?? "", ttlMs)) === 1;
  }
}

/** What is decided about a text: an answer and, unless it stays, what comes in its place (undefined: nothing). */
export type Decision<T> = { answer: T; put?: { text: string | undefined; ttlMs: number } };

/** Each round somebody else succeeded, and each text takes only so many changes before it refuses. */
const ROUNDS_MAX = 100;

/** Reads, decides and stores, again as long as somebody else stores in between. */
export async function changeText<T>(
  texts: ExpiringTexts,
  key: string,
  decide: (text: string | undefined) => Decision<T>,
): Promise<T> {
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const before = await texts.read(key);
    const { answer, put } = decide(before);
    if (!put || (await texts.swap(key, before, put.text, put.ttlMs))) return answer;
  }
  throw new AppError("UNAVAILABLE", {
    reason: { en: "too many tries at the same time", zh: "同时尝试的次数过多" },
  });
}

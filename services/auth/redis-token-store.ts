import type { Realm } from "../../lib/contract.ts";
import type { RedisHandle } from "../../lib/redis.ts";
import { authLimits } from "./config.ts";
import type { LoginToken, TokenStore } from "./token-store.ts";

const keyOf = (digest: string) => `token:${digest}`;
/** Stands where a token was that ended: a slower node must not put what it read before in that place. */
const ENDED = "ended";

/**
 * Redis in front of the durable token store. A token found there lasts `sharedTokenMs` in Redis, which nobody
 * prolongs: a token that was revoked while Redis could not be told is believed no longer than that. Whatever fails
 * with Redis, the durable store decides.
 */
export class RedisTokenStore implements TokenStore {
  readonly #durable: TokenStore;
  readonly #redis: RedisHandle;

  constructor(durable: TokenStore, redis: RedisHandle) {
    this.#durable = durable;
    this.#redis = redis;
  }

  async issue(token: LoginToken, tokensMax: number): Promise<string[]> {
    const ended = await this.#durable.issue(token, tokensMax);
    await this.#end(ended);
    return ended;
  }

  async find(digest: string, now: number): Promise<LoginToken | undefined> {
    const { client } = this.#redis;
    const text = await client.get(keyOf(digest)).catch(() => undefined);
    if (text === undefined) return this.#durable.find(digest, now);
    if (text === ENDED) return undefined;
    if (text !== null) {
      const token: LoginToken = JSON.parse(text);
      return token.expiresAt > now ? token : undefined;
    }
    const found = await this.#durable.find(digest, now);
    if (!found) return undefined;
    const ttlMs = Math.min(authLimits.sharedTokenMs, found.expiresAt - now);
    const put = client.set(keyOf(digest), JSON.stringify(found), "PX", ttlMs, "NX");
    const stored = await put.catch(() => "OK");
    if (stored === "OK") return found;
    // Somebody else was faster: the same token, or its end.
    const other = await client.get(keyOf(digest)).catch(() => null);
    return other === ENDED ? undefined : found;
  }

  async revoke(digest: string): Promise<void> {
    await this.#durable.revoke(digest);
    await this.#end([digest]);
  }

  async revokeAccount(realm: Realm, accountId: string): Promise<string[]> {
    const ended = await this.#durable.revokeAccount(realm, accountId);
    await this.#end(ended);
    return ended;
  }

  /** After the durable store: who asks in between may still believe the token, but puts nothing in this place. */
  async #end(digests: readonly string[]): Promise<void> {
    if (digests.length === 0 || !this.#redis.ready) return;
    const pipeline = this.#redis.client.pipeline();
    for (const digest of digests)
      pipeline.set(keyOf(digest), ENDED, "PX", authLimits.verifyCacheMs);
    // What could not be told ends by itself.
    await pipeline.exec().catch(() => undefined);
  }

  async close(): Promise<void> {
    await this.#durable.close();
    await this.#redis.release();
  }
}

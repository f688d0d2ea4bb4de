import { LRUCache } from "lru-cache";
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import type { Config } from "../../lib/config.ts";
import { acquireRedis, type RedisHandle } from "../../lib/redis.ts";
import { gatewayLimits } from "./config.ts";
import { type Allowance, type Lease, leaseOf, shareOf, take } from "./rate-limit.policy.ts";

/** The setting is per minute. */
const WINDOW_SECONDS = 60;

/**
 * Counts requests per client: over all gateways in Redis, else in this process. A gateway takes a share of a client's
 * allowance at once and counts it down by itself, so that few requests wait for Redis. While Redis is away each gateway
 * counts for itself: a client gets at most the limit from each.
 */
export class RateLimit {
  readonly #limit: number;
  readonly #share: number;
  readonly #limiter: RateLimiterMemory | RateLimiterRedis;
  readonly #redis: RedisHandle | undefined;
  readonly #leases = new LRUCache<string, Lease>({ max: gatewayLimits.clientsMax });
  /** Shares that are being asked for. */
  readonly #asked = new Map<string, Promise<void>>();

  private constructor(limit: number, redis: RedisHandle | undefined) {
    const options = { keyPrefix: "rate", points: limit, duration: WINDOW_SECONDS };
    const memory = new RateLimiterMemory(options);
    this.#limit = limit;
    this.#redis = redis;
    this.#share = redis ? shareOf(limit) : limit;
    this.#limiter = redis
      ? new RateLimiterRedis({
          ...options,
          storeClient: redis.client,
          insuranceLimiter: memory,
          rejectIfRedisNotReady: true,
        })
      : memory;
  }

  /** Undefined where RATE_LIMIT_PER_MINUTE is 0. */
  static open(config: Config): RateLimit | undefined {
    const limit = config.RATE_LIMIT_PER_MINUTE;
    if (limit === 0) return undefined;
    return new RateLimit(
      limit,
      acquireRedis(
        config,
        "Request limits are counted by each gateway for itself, not over all of them.",
      ),
    );
  }

  /** Counts one request of a client; tells how the client stands and whether the request is one too many. */
  count(client: string): Allowance | Promise<Allowance> {
    return this.#take(client) ?? this.#ask(client);
  }

  #take(client: string): Allowance | undefined {
    const lease = this.#leases.get(client);
    const taken = lease && take(lease, performance.now());
    return taken && { limit: this.#limit, windowSeconds: WINDOW_SECONDS, ...taken };
  }

  async #ask(client: string): Promise<Allowance> {
    while (true) {
      const asked = this.#asked.get(client) ?? this.#renew(client);
      this.#asked.set(client, asked);
      await asked;
      // One share is taken by as many requests as it has; who got none asks for the next.
      const taken = this.#take(client);
      if (taken) return taken;
    }
  }

  async #renew(client: string): Promise<void> {
    try {
      const result = await this.#limiter.consume(client, this.#share).catch((refused) => {
        if (!(refused instanceof RateLimiterRes)) throw refused;
        return refused;
      });
      const { consumedPoints, msBeforeNext } = result;
      const resetAt = performance.now() + msBeforeNext;
      this.#leases.set(client, leaseOf(this.#limit, this.#share, consumedPoints, resetAt));
    } finally {
      this.#asked.delete(client);
    }
  }

  async close(): Promise<void> {
    await this.#redis?.release();
  }
}

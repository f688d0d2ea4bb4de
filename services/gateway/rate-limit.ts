import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import type { Config } from "../../lib/config.ts";
import { acquireRedis, type RedisHandle } from "../../lib/redis.ts";
import type { Allowance } from "./rate-limit.policy.ts";

/** The setting is per minute. */
const WINDOW_SECONDS = 60;

/**
 * Counts requests per client: over all gateways in Redis, else in this process. While Redis is away each gateway
 * counts for itself, so that a client gets at most the limit from each.
 */
export class RateLimit {
  readonly #limit: number;
  readonly #limiter: RateLimiterMemory | RateLimiterRedis;
  readonly #redis: RedisHandle | undefined;

  private constructor(limit: number, redis: RedisHandle | undefined) {
    const options = { keyPrefix: "rate", points: limit, duration: WINDOW_SECONDS };
    const memory = new RateLimiterMemory(options);
    this.#limit = limit;
    this.#redis = redis;
    this.#limiter = redis
      ? new RateLimiterRedis({
          ...options,
          storeClient: redis.client,
          insuranceLimiter: memory,
          rejectIfRedisNotReady: true,
          // A client above the limit is known here until its window ends: refusing it costs no question.
          inMemoryBlockOnConsumed: limit + 1,
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

  /** Counts one request of a client; the answer says how the client stands and whether the request is one too many. */
  async count(key: string): Promise<Allowance & { exceeded: boolean }> {
    try {
      return this.#allowance(await this.#limiter.consume(key), false);
    } catch (refused) {
      if (!(refused instanceof RateLimiterRes)) throw refused;
      return this.#allowance(refused, true);
    }
  }

  #allowance({ remainingPoints, msBeforeNext }: RateLimiterRes, exceeded: boolean) {
    return {
      limit: this.#limit,
      windowSeconds: WINDOW_SECONDS,
      remaining: exceeded ? 0 : remainingPoints,
      resetMs: msBeforeNext,
      exceeded,
    };
  }

  async close(): Promise<void> {
    await this.#redis?.release();
  }
}

import { createHash } from "node:crypto";
import { asAppError } from "../../lib/errors.ts";
import type { RedisHandle } from "../../lib/redis.ts";
import { authLimits } from "./config.ts";
import {
  changeText,
  type Decision,
  type ExpiringTexts,
  MemoryTexts,
  RedisTexts,
} from "./expiring-texts.ts";
import { answered, type Failures, failed, waitOf } from "./login-throttle.policy.ts";

const read = (text: string | undefined): Failures | undefined =>
  text === undefined ? undefined : JSON.parse(text);
const put = (failures: Failures) => ({
  text: JSON.stringify(failures),
  ttlMs: authLimits.forgetMs,
});

/**
 * Failed logins of one account from one place, counted over all nodes in Redis, else by this one. While Redis is away
 * each node counts for itself.
 */
export class LoginThrottle {
  readonly #memory: ExpiringTexts = new MemoryTexts(authLimits.throttleMax);
  readonly #redis: RedisHandle | undefined;
  readonly #shared: ExpiringTexts | undefined;

  constructor(redis?: RedisHandle) {
    this.#redis = redis;
    this.#shared = redis && new RedisTexts(redis, "login");
  }

  /**
   * Counts a try as failed before anybody looks at it: tries sent at the same time must not all be free.
   * @returns milliseconds to wait; 0: it may be looked at.
   */
  begin(key: string, now: number): Promise<number> {
    return this.#change(key, (failures) => {
      const waitMs = waitOf(failures, now);
      return waitMs > 0 ? { answer: waitMs } : { answer: 0, put: put(failed(failures, now)) };
    });
  }

  /** The try was wrong; the wait counts from here. */
  wrong(key: string, now: number): Promise<void> {
    return this.#change(key, (failures) => ({
      answer: undefined,
      ...(failures ? { put: put(answered(failures, now)) } : {}),
    }));
  }

  /** The right password: all is forgotten. */
  right(key: string): Promise<void> {
    return this.#change(key, (failures) => ({
      answer: undefined,
      ...(failures ? { put: { text: undefined, ttlMs: 0 } } : {}),
    }));
  }

  /** @param key Who from where; only its hash is stored. */
  async #change<T>(
    key: string,
    decide: (failures: Failures | undefined) => Decision<T>,
  ): Promise<T> {
    const digest = createHash("sha256").update(key).digest("base64url");
    const step = (text: string | undefined) => decide(read(text));
    if (this.#shared && this.#redis?.ready) {
      try {
        return await changeText(this.#shared, digest, step);
      } catch (error) {
        if (asAppError(error)) throw error;
      }
    }
    return changeText(this.#memory, digest, step);
  }
}

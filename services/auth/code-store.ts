import { createHash, createHmac, hkdfSync, randomInt, timingSafeEqual } from "node:crypto";
import { AppError, asAppError } from "../../lib/errors.ts";
import { authLimits } from "./config.ts";
import { changeText, type Decision, type ExpiringTexts } from "./expiring-texts.ts";
import {
  type CodeRecord,
  type CodeVerdict,
  checkCode,
  issueCode,
  keepMs,
} from "./verification-code.policy.ts";

/** Whom a code is for: what it permits, and the phone number or mail address that it is sent to. */
export interface CodeSubject {
  purpose: string;
  address: string;
}

/**
 * Verification codes. A code is kept as a keyed hash only, since six digits are soon tried through: a copy of the store
 * tells nobody a code, nor whom codes were sent to.
 */
export class CodeStore {
  readonly #texts: ExpiringTexts;
  readonly #key: Buffer;

  /** @param secret The same on all nodes that share the texts. */
  constructor(texts: ExpiringTexts, secret: string) {
    this.#texts = texts;
    this.#key = Buffer.from(hkdfSync("sha256", secret, "", "verification codes", 32));
  }

  /**
   * A fresh code, to be sent by the caller; the one before is none any more.
   * @throws RATE_LIMITED before the resend interval is over, and above the number of codes for one address.
   */
  async issue(subject: CodeSubject, now: number): Promise<{ code: string; expiresAt: number }> {
    const digits = authLimits.codeDigits;
    const code = `${randomInt(10 ** digits)}`.padStart(digits, "0");
    const place = this.#placeOf(subject);
    const digest = this.#digestOf(place, code).toString("base64url");
    const issued = await this.#change<ReturnType<typeof issueCode>>(place, now, (before) => {
      const answer = issueCode(before, digest, now);
      return "record" in answer ? { answer, record: answer.record } : { answer };
    });
    if ("waitMs" in issued)
      throw new AppError("RATE_LIMITED", { seconds: Math.ceil(issued.waitMs / 1000) });
    return { code, expiresAt: issued.record.expiresAt };
  }

  /** One try; of any number of right ones at the same time exactly one is accepted. */
  check(subject: CodeSubject, code: string, now: number): Promise<CodeVerdict> {
    const place = this.#placeOf(subject);
    const given = this.#digestOf(place, code);
    const isRight = (digest: string) => timingSafeEqual(Buffer.from(digest, "base64url"), given);
    return this.#change(place, now, (before) => {
      const { verdict, record } = checkCode(before, isRight, now);
      return record ? { answer: verdict, record } : { answer: verdict };
    });
  }

  #placeOf({ purpose, address }: CodeSubject): string {
    return createHash("sha256")
      .update(this.#key)
      .update(`${purpose}\n${address}`)
      .digest("base64url");
  }

  #digestOf(place: string, code: string): Buffer {
    return createHmac("sha256", this.#key).update(`${place}\n${code}`).digest();
  }

  async #change<T>(
    place: string,
    now: number,
    decide: (record: CodeRecord | undefined) => { answer: T; record?: CodeRecord },
  ): Promise<T> {
    const step = (text: string | undefined): Decision<T> => {
      const { answer, record } = decide(text === undefined ? undefined : JSON.parse(text));
      if (!record) return { answer };
      return { answer, put: { text: JSON.stringify(record), ttlMs: keepMs(record, now) } };
    };
    try {
      return await changeText(this.#texts, place, step);
    } catch (error) {
      if (asAppError(error)) throw error;
      // Codes kept by one node alone would multiply the attempts, and another node would not know them.
      throw new AppError("UNAVAILABLE", {
        reason: { en: "verification codes cannot be kept now", zh: "暂时无法使用验证码" },
      });
    }
  }
}

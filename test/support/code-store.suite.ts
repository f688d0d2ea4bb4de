import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { asAppError } from "../../lib/errors.ts";
import { CodeStore } from "../../services/auth/code-store.ts";
import { authLimits } from "../../services/auth/config.ts";
import type { ExpiringTexts } from "../../services/auth/expiring-texts.ts";

/** How the suite gets texts of an engine. */
export interface TextsHarness {
  /** In the place of this test, as another node would open it. */
  open(): ExpiringTexts;
  /** Every text that is stored there. */
  dump(): Promise<string>;
  cleanUp(): Promise<void>;
}

const SUBJECT = { purpose: "member.login", address: "+8613800000000" };
const SECRET = "a secret that all nodes have";

/** What verification codes must do on every engine. */
export function codeStoreSuite(name: string, harness: () => Promise<TextsHarness>): void {
  describe(`verification codes in ${name}`, () => {
    let place: TextsHarness;
    let codes: CodeStore;
    const now = Date.now();
    beforeEach(async () => {
      place = await harness();
      codes = new CodeStore(place.open(), SECRET);
    });
    afterEach(() => place.cleanUp());
    const wrongFor = (code: string, n = 0) =>
      `${(Number(code) + 1 + n) % 1_000_000}`.padStart(6, "0");
    const refusal = (issuing: Promise<unknown>) =>
      issuing.then(
        () => undefined,
        (error) => asAppError(error),
      );

    test("a code is accepted once, on any node that has the secret", async () => {
      const { code, expiresAt } = await codes.issue(SUBJECT, now);
      expect(code).toMatch(/^\d{6}$/);
      expect(expiresAt).toBe(now + authLimits.codeMs);
      const other = new CodeStore(place.open(), SECRET);
      expect(await other.check(SUBJECT, code, now)).toBe("accepted");
      expect(await codes.check(SUBJECT, code, now)).toBe("none");
    });

    test("of 20 right tries at the same time exactly one is accepted", async () => {
      const { code } = await codes.issue(SUBJECT, now);
      const nodes = [codes, new CodeStore(place.open(), SECRET)];
      const verdicts = await Promise.all(
        Array.from({ length: 20 }, (_, n) => nodes[n % 2]!.check(SUBJECT, code, now)),
      );
      expect(verdicts.filter((verdict) => verdict === "accepted")).toHaveLength(1);
      expect(verdicts.filter((verdict) => verdict === "none")).toHaveLength(19);
    });

    test("wrong tries at the same time all count: afterwards the right code is none", async () => {
      const { code } = await codes.issue(SUBJECT, now);
      const verdicts = await Promise.all(
        Array.from({ length: 20 }, (_, n) => codes.check(SUBJECT, wrongFor(code, n), now)),
      );
      expect(verdicts.filter((verdict) => verdict === "wrong")).toHaveLength(
        authLimits.codeAttemptsMax,
      );
      expect(await codes.check(SUBJECT, code, now)).toBe("none");
    });

    test("a wrong try before the last leaves the code usable", async () => {
      const { code } = await codes.issue(SUBJECT, now);
      for (let n = 1; n < authLimits.codeAttemptsMax; n += 1)
        expect(await codes.check(SUBJECT, wrongFor(code, n), now)).toBe("wrong");
      expect(await codes.check(SUBJECT, code, now)).toBe("accepted");
    });

    test("a code is none after its time, for another purpose and at another address", async () => {
      const { code, expiresAt } = await codes.issue(SUBJECT, now);
      expect(await codes.check({ ...SUBJECT, purpose: "member.reset" }, code, now)).toBe("none");
      expect(await codes.check({ ...SUBJECT, address: "+8613900000000" }, code, now)).toBe("none");
      expect(await codes.check(SUBJECT, code, expiresAt)).toBe("none");
      expect(await codes.check(SUBJECT, code, expiresAt - 1)).toBe("accepted");
    });

    test("a code of another length or of no digits is wrong, not an error", async () => {
      const { code } = await codes.issue(SUBJECT, now);
      for (const given of ["", code.slice(1), `${code}0`, "密码"])
        expect(await codes.check(SUBJECT, given, now)).toBe("wrong");
    });

    test("the next code waits for the resend interval and ends the one before", async () => {
      const first = await codes.issue(SUBJECT, now);
      const early = now + authLimits.codeResendMs - 1;
      expect(await refusal(codes.issue(SUBJECT, early))).toMatchObject({
        type: "RATE_LIMITED",
        data: { seconds: 1 },
      });
      // The refused one did not harm the one that was sent.
      const second = await codes.issue(SUBJECT, now + authLimits.codeResendMs);
      if (first.code !== second.code)
        expect(await codes.check(SUBJECT, first.code, now + authLimits.codeResendMs)).toBe("wrong");
      expect(await codes.check(SUBJECT, second.code, now + authLimits.codeResendMs)).toBe(
        "accepted",
      );
    });

    test("of codes asked for at the same time one is sent", async () => {
      const asked = await Promise.all(
        Array.from({ length: 10 }, () => refusal(codes.issue(SUBJECT, now))),
      );
      expect(asked.filter((error) => error === undefined)).toHaveLength(1);
    });

    test("an address gets so many codes in a window, also when it uses them, then again", async () => {
      let at = now;
      for (let n = 0; n < authLimits.codesPerWindowMax; n += 1) {
        const { code } = await codes.issue(SUBJECT, at);
        expect(await codes.check(SUBJECT, code, at)).toBe("accepted");
        at += authLimits.codeResendMs;
      }
      expect(await refusal(codes.issue(SUBJECT, at))).toMatchObject({
        type: "RATE_LIMITED",
        data: { seconds: Math.ceil((now + authLimits.codeWindowMs - at) / 1000) },
      });
      await codes.issue(SUBJECT, now + authLimits.codeWindowMs);
    });

    test("what is stored tells neither code nor address", async () => {
      const { code } = await codes.issue(SUBJECT, now);
      const stored = await place.dump();
      expect(stored.length).toBeGreaterThan(40);
      expect(stored).not.toContain(code);
      expect(stored).not.toContain("1380000");
    });
  });
}

import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import type { LoginToken, TokenStore } from "../../services/auth/token-store.ts";

/** How a suite gets stores of an engine; each test starts with an empty place. */
export interface TokenStoreHarness {
  /** Opens the store in the place of this test; several may be open, as on several nodes. */
  open(): Promise<TokenStore>;
  /** Removes the place of this test. */
  cleanUp(): Promise<void>;
}

/** Tokens of the tests end long after they ran: stores may remove by their own clock what has ended. */
const NOW = Date.now();
const HOUR = 3_600_000;

const token = (n: number, changes: Partial<LoginToken> = {}): LoginToken => ({
  digest: n.toString(16).padStart(64, "0"),
  realm: "admin",
  accountId: "a1",
  name: "管理员",
  createdAt: NOW + n,
  expiresAt: NOW + n + HOUR,
  ...changes,
});

/** What every adapter of the token store port must do. Cases read only the port, never the engine. */
export function tokenStoreSuite(name: string, harness: () => Promise<TokenStoreHarness>): void {
  describe(`token store on ${name}`, () => {
    let place: TokenStoreHarness;
    let store: TokenStore;
    beforeEach(async () => {
      place = await harness();
      store = await place.open();
    });
    afterEach(async () => {
      await store.close();
      await place.cleanUp();
    });
    const known = async (...tokens: LoginToken[]) => {
      const found = await Promise.all(tokens.map(({ digest }) => store.find(digest, NOW)));
      return found.map((one) => one !== undefined);
    };

    test("an issued token is found as it was given, also by another node and after a restart", async () => {
      expect(await store.issue(token(1), 5)).toEqual([]);
      expect(await store.find(token(1).digest, NOW)).toEqual(token(1));
      const other = await place.open();
      expect(await other.find(token(1).digest, NOW)).toEqual(token(1));
      await other.close();
      await store.close();
      store = await place.open();
      expect(await store.find(token(1).digest, NOW)).toEqual(token(1));
    });

    test("a token without a name of its account is kept", async () => {
      await store.issue(token(1, { name: "" }), 5);
      expect(await store.find(token(1).digest, NOW)).toMatchObject({ name: "" });
    });

    test("what was never issued is undefined", async () => {
      expect(await store.find(token(1).digest, NOW)).toBeUndefined();
    });

    test("a token is none from its end on", async () => {
      const { digest, expiresAt } = token(1);
      await store.issue(token(1), 5);
      expect(await store.find(digest, expiresAt - 1)).toBeDefined();
      expect(await store.find(digest, expiresAt)).toBeUndefined();
    });

    test("a revoked token is found no more, by no node; a second time changes nothing", async () => {
      await store.issue(token(1), 5);
      await store.issue(token(2), 5);
      const other = await place.open();
      await other.revoke(token(1).digest);
      await other.revoke(token(1).digest);
      await other.close();
      expect(await known(token(1), token(2))).toEqual([false, true]);
    });

    test("all tokens of an account end at once, those of others stay", async () => {
      const [elsewhere, somebody] = [
        token(3, { realm: "agent" }),
        token(4, { accountId: "somebody" }),
      ];
      for (const one of [token(1), token(2), elsewhere, somebody]) await store.issue(one, 5);
      const ended = await store.revokeAccount("admin", "a1");
      expect(ended.sort()).toEqual([token(1).digest, token(2).digest]);
      expect(await known(token(1), token(2), elsewhere, somebody)).toEqual([
        false,
        false,
        true,
        true,
      ]);
      expect(await store.revokeAccount("admin", "a1")).toEqual([]);
    });

    test("the oldest beyond the number that an account keeps end, and are named", async () => {
      const other = token(9, { accountId: "somebody" });
      await store.issue(other, 3);
      for (const n of [2, 1, 3]) expect(await store.issue(token(n), 3)).toEqual([]);
      expect(await store.issue(token(4), 3)).toEqual([token(1).digest]);
      expect(await known(token(1), token(2), token(3), token(4), other)).toEqual([
        false,
        true,
        true,
        true,
        true,
      ]);
    });

    test("a token that a node with a slow clock issues stays, and an older one goes", async () => {
      for (const n of [10, 20, 30]) await store.issue(token(n), 3);
      expect(await store.issue(token(1), 3)).toEqual([token(10).digest]);
      expect(await known(token(1), token(20), token(30))).toEqual([true, true, true]);
    });

    test("a token that had ended by itself is not named as ended by another", async () => {
      const past = token(1, { createdAt: NOW - 2 * HOUR, expiresAt: NOW - HOUR });
      await store.issue(past, 1);
      expect(await store.issue(token(2), 1)).toEqual([]);
    });

    test("of 20 tokens issued at once by two nodes the account keeps as many as it may", async () => {
      const other = await place.open();
      const all = Array.from({ length: 20 }, (_, n) => token(n));
      const ended = await Promise.all(
        all.map((one, n) => (n % 2 === 0 ? store : other).issue(one, 5)),
      );
      await other.close();
      const kept = (await known(...all)).filter(Boolean).length;
      expect(kept).toBeLessThanOrEqual(5);
      expect(kept).toBeGreaterThan(0);
      expect(new Set(ended.flat()).size).toBe(20 - kept);
    });

    test("close may be repeated", async () => {
      const other = await place.open();
      await other.close();
      await other.close();
      expect(await store.issue(token(1), 5)).toEqual([]);
    });
  });
}

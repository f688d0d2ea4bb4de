import type { Realm } from "../../lib/contract.ts";

/** A login token as stores know it. The token itself is never stored: a copy of the store gives nobody a way in. */
export interface LoginToken {
  /** SHA-256 of the token, in lower-case hex. */
  digest: string;
  realm: Realm;
  accountId: string;
  /** How people call the account. */
  name: string;
  /** Milliseconds since the epoch, as `expiresAt`. */
  createdAt: number;
  /** From this moment on the token is none. */
  expiresAt: number;
}

/**
 * Port of the login tokens: all nodes of an installation use one such store. All adapters pass
 * `test/support/token-store.suite.ts`. An answered write has lasted: what was issued is found, and what was revoked
 * is found no more, by every node that asks the store itself (a cache in front of it has to be told).
 * Errors: UNAVAILABLE while the store cannot be reached.
 */
export interface TokenStore {
  /**
   * Stores a token. Of its account the newest `tokensMax` stay (by `createdAt`, this one always), of all accounts
   * what ended before `token.createdAt` may go.
   * @returns the digests of tokens of this account that ended by it before their time.
   */
  issue(token: LoginToken, tokensMax: number): Promise<string[]>;
  /** The token, unless it is unknown, was revoked or has ended at `now`. */
  find(digest: string, now: number): Promise<LoginToken | undefined>;
  /** Ends a token; safe to repeat. */
  revoke(digest: string): Promise<void>;
  /** Ends all tokens of an account; answers their digests. */
  revokeAccount(realm: Realm, accountId: string): Promise<string[]>;
  /** Safe to repeat. */
  close(): Promise<void>;
}

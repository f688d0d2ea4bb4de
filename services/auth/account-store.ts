import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { Actor, Realm } from "../../lib/contract.ts";
import type { Database } from "../../lib/sqlite/database.ts";
import { authLimits } from "./config.ts";
import { hashPassword, verifyPassword } from "./password.ts";

export interface Administrator {
  id: string;
  username: string;
  password_hash: string;
  /** Hash of the ADMIN_PASSWORD that was last taken over; only for the first administrator. */
  setting_hash: string | null;
}

interface TokenRow {
  realm: Realm;
  account_id: string;
  name: string;
  expires_at: number;
}

const FIRST_ADMINISTRATOR = "admin";

const digestOf = (token: string): string => createHash("sha256").update(token).digest("hex");

/** Administrators and login tokens. A token is stored as its SHA-256 only: the file gives nobody a way in. */
export class AccountStore {
  readonly #db: Database;
  constructor(db: Database) {
    this.#db = db;
  }

  async prepare(): Promise<void> {
    await this.#db.write([
      {
        sql: `CREATE TABLE IF NOT EXISTS auth_administrator (
          id TEXT PRIMARY KEY, username TEXT NOT NULL UNIQUE, password_hash TEXT NOT NULL,
          setting_hash TEXT, created_at INTEGER NOT NULL) STRICT`,
      },
      {
        sql: `CREATE TABLE IF NOT EXISTS auth_token (
          digest TEXT PRIMARY KEY, realm TEXT NOT NULL, account_id TEXT NOT NULL, name TEXT NOT NULL,
          created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL) STRICT`,
      },
      {
        sql: "CREATE INDEX IF NOT EXISTS auth_token_account ON auth_token (realm, account_id, created_at)",
      },
      { sql: "CREATE INDEX IF NOT EXISTS auth_token_expiry ON auth_token (expires_at)" },
    ]);
  }

  /**
   * The first administrator, `admin`, comes from ADMIN_PASSWORD. A changed setting changes the password and
   * ends the account's sign-ins; an unchanged one leaves alone what the account has set since.
   */
  async adoptSetting(password: string, now: number): Promise<void> {
    const known = this.administrator(FIRST_ADMINISTRATOR);
    if (known?.setting_hash && (await verifyPassword(password, known.setting_hash))) return;
    const hash = await hashPassword(password);
    await this.#db.write(
      known
        ? [
            {
              sql: "UPDATE auth_administrator SET password_hash = ?, setting_hash = ? WHERE id = ?",
              params: [hash, hash, known.id],
            },
            {
              sql: "DELETE FROM auth_token WHERE realm = 'admin' AND account_id = ?",
              params: [known.id],
            },
          ]
        : [
            {
              sql: "INSERT INTO auth_administrator VALUES (?, ?, ?, ?, ?)",
              params: [randomUUID(), FIRST_ADMINISTRATOR, hash, hash, now],
            },
          ],
    );
  }

  administrator(username: string): Administrator | undefined {
    return this.#db.get<Administrator>("SELECT * FROM auth_administrator WHERE username = ?", [
      username,
    ]);
  }

  /** A fresh 256-bit token; what has ended, and the oldest beyond `tokensMax`, goes. */
  async issue(actor: Actor, now: number): Promise<{ token: string; expiresAt: number }> {
    const token = randomBytes(32).toString("base64url");
    const expiresAt = now + authLimits.tokenMs;
    await this.#db.write([
      { sql: "DELETE FROM auth_token WHERE expires_at <= ?", params: [now] },
      {
        sql: "INSERT INTO auth_token VALUES (?, ?, ?, ?, ?, ?)",
        params: [digestOf(token), actor.realm, actor.id, actor.name ?? "", now, expiresAt],
      },
      {
        sql: `DELETE FROM auth_token WHERE digest IN (SELECT digest FROM auth_token
          WHERE realm = ? AND account_id = ? ORDER BY created_at DESC, rowid DESC LIMIT -1 OFFSET ?)`,
        params: [actor.realm, actor.id, authLimits.tokensMax],
      },
    ]);
    return { token, expiresAt };
  }

  find(digest: string): { actor: Actor; expiresAt: number } | undefined {
    const row = this.#db.get<TokenRow>("SELECT * FROM auth_token WHERE digest = ?", [digest]);
    return (
      row && {
        actor: { realm: row.realm, id: row.account_id, name: row.name, session: digest },
        expiresAt: row.expires_at,
      }
    );
  }

  async revoke(digest: string): Promise<void> {
    await this.#db.write([{ sql: "DELETE FROM auth_token WHERE digest = ?", params: [digest] }]);
  }
}

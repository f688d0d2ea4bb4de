import type { Realm } from "../../lib/contract.ts";
import { acquireDatabase, type Database, releaseDatabase } from "../../lib/sqlite/database.ts";
import { ChangeQueue } from "../../lib/store/change-queue.ts";
import type { LoginToken, TokenStore } from "./token-store.ts";

interface Row {
  digest: string;
  realm: Realm;
  account_id: string;
  name: string;
  created_at: number;
  expires_at: number;
}

const tokenOf = (row: Row): LoginToken => ({
  digest: row.digest,
  realm: row.realm,
  accountId: row.account_id,
  name: row.name,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
});

/** Login tokens in a table of the records' database. */
export class SqliteTokenStore implements TokenStore {
  readonly #db: Database;
  readonly #path: string;
  /** Tokens of one account one after the other: what ended is the difference before and after. */
  readonly #issues = new ChangeQueue();
  #closed: Promise<void> | undefined;

  private constructor(db: Database, path: string) {
    this.#db = db;
    this.#path = path;
  }

  static async open(path: string): Promise<SqliteTokenStore> {
    const db = await acquireDatabase(path);
    try {
      await db.write([
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
      return new SqliteTokenStore(db, path);
    } catch (error) {
      await releaseDatabase(path);
      throw error;
    }
  }

  issue(token: LoginToken, tokensMax: number): Promise<string[]> {
    const account = `${token.realm}:${token.accountId}`;
    return this.#issues.run(account, () => this.#issue(token, tokensMax));
  }

  async find(digest: string, now: number): Promise<LoginToken | undefined> {
    const row = this.#db.get<Row>("SELECT * FROM auth_token WHERE digest = ? AND expires_at > ?", [
      digest,
      now,
    ]);
    return row && tokenOf(row);
  }

  /** The tokens that have not ended at `now`, oldest first. */
  *current(now: number): IterableIterator<LoginToken> {
    const rows = this.#db.iterate<Row>(
      "SELECT * FROM auth_token WHERE expires_at > ? ORDER BY created_at, digest",
      [now],
    );
    for (const row of rows) yield tokenOf(row);
  }

  async revoke(digest: string): Promise<void> {
    await this.#db.write([{ sql: "DELETE FROM auth_token WHERE digest = ?", params: [digest] }]);
  }

  async revokeAccount(realm: Realm, accountId: string): Promise<string[]> {
    const digests = this.#digests(realm, accountId, 0);
    await this.#db.write([
      {
        sql: "DELETE FROM auth_token WHERE realm = ? AND account_id = ?",
        params: [realm, accountId],
      },
    ]);
    return digests;
  }

  close(): Promise<void> {
    this.#closed ??= this.#issues.settled().then(() => releaseDatabase(this.#path));
    return this.#closed;
  }

  async #issue(token: LoginToken, tokensMax: number): Promise<string[]> {
    const { digest, realm, accountId, name, createdAt, expiresAt } = token;
    const before = this.#digests(realm, accountId, createdAt);
    await this.#db.write([
      { sql: "DELETE FROM auth_token WHERE expires_at <= ?", params: [createdAt] },
      {
        sql: "INSERT INTO auth_token VALUES (?, ?, ?, ?, ?, ?)",
        params: [digest, realm, accountId, name, createdAt, expiresAt],
      },
      {
        sql: `DELETE FROM auth_token WHERE digest IN (SELECT digest FROM auth_token
          WHERE realm = ? AND account_id = ?
          ORDER BY digest = ? DESC, created_at DESC, rowid DESC LIMIT -1 OFFSET ?)`,
        params: [realm, accountId, digest, tokensMax],
      },
    ]);
    const kept = new Set(this.#digests(realm, accountId, createdAt));
    return before.filter((one) => !kept.has(one));
  }

  /** Of the account's tokens those that have not ended at `now`. */
  #digests(realm: Realm, accountId: string, now: number): string[] {
    return this.#db
      .all<{ digest: string }>(
        "SELECT digest FROM auth_token WHERE realm = ? AND account_id = ? AND expires_at > ?",
        [realm, accountId, now],
      )
      .map(({ digest }) => digest);
  }
}

import type { Config } from "../../lib/config.ts";
import { asAppError } from "../../lib/errors.ts";
import { acquireDatabase, releaseDatabase } from "../../lib/sqlite/database.ts";
import { openRecords, recordsFile } from "../../lib/store/open-records.ts";
import {
  defineCollection,
  type RecordStore,
  type StoredRecord,
} from "../../lib/store/record-store.ts";
import { hashPassword, verifyPassword } from "./password.ts";
import type { TokenStore } from "./token-store.ts";

type Fields = {
  username: string;
  password_hash: string;
  /** Hash of the ADMIN_PASSWORD that was last taken over; only for the first administrator. */
  setting_hash?: string;
};
export type Administrator = StoredRecord<Fields>;

/** The accounts. */
export const administrators = defineCollection({
  name: "administrator",
  filters: { username: "text" },
});

const FIRST_ADMINISTRATOR = "admin";

/** Accounts of administrators, in the record store. */
export class AccountStore {
  readonly #records: RecordStore<Fields>;

  private constructor(records: RecordStore<Fields>) {
    this.#records = records;
  }

  static async open(config: Config): Promise<AccountStore> {
    const records = await openRecords<Fields>(config, administrators);
    try {
      if (config.MONGO_URL === undefined) await takeOverTable(recordsFile(config), records);
      return new AccountStore(records);
    } catch (error) {
      await records.close();
      throw error;
    }
  }

  /**
   * The first administrator, `admin`, comes from ADMIN_PASSWORD. A changed setting changes the password and ends the
   * account's sign-ins; an unchanged one leaves alone what the account has set since. Several nodes may do so at
   * once, and each step may be the last before a crash: the setting counts as taken over only when all is done.
   * @returns digests of the tokens that it ended.
   */
  async adoptSetting(password: string, tokens: TokenStore): Promise<string[]> {
    while (true) {
      const known = await this.administrator(FIRST_ADMINISTRATOR);
      if (known?.setting_hash && (await verifyPassword(password, known.setting_hash))) return [];
      const hash = await hashPassword(password);
      const ended = await (known ? this.#change(known, hash, tokens) : this.#create(hash));
      if (ended) return ended;
    }
  }

  async administrator(username: string): Promise<Administrator | undefined> {
    return (await this.#records.list({ filter: { username }, limit: 1 })).rows[0];
  }

  close(): Promise<void> {
    return this.#records.close();
  }

  /** One id for all nodes: of those that start at once, one creates the account. Undefined: another did. */
  async #create(hash: string): Promise<string[] | undefined> {
    const username = FIRST_ADMINISTRATOR;
    const fields = { id: username, username, password_hash: hash, setting_hash: hash };
    return unless("CONFLICT", async () => {
      await this.#records.insert(fields);
      return [];
    });
  }

  /** Undefined: another node changed the account meanwhile. */
  #change(known: Administrator, hash: string, tokens: TokenStore): Promise<string[] | undefined> {
    return unless("VERSION_CONFLICT", async () => {
      const { id } = known;
      const changed = await this.#records.updateIf(id, known.version, { password_hash: hash });
      const ended = await tokens.revokeAccount("admin", id);
      await this.#records.updateIf(id, changed.version, { setting_hash: hash });
      return ended;
    });
  }
}

async function unless<T>(type: string, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (asAppError(error)?.type !== type) throw error;
    return undefined;
  }
}

/** Version 0.1 kept the accounts in a table of their own. Safe to repeat: the table goes when all are taken over. */
async function takeOverTable(path: string, records: RecordStore<Fields>): Promise<void> {
  const db = await acquireDatabase(path);
  try {
    if (!db.get("SELECT 1 FROM sqlite_schema WHERE name = 'auth_administrator'")) return;
    const rows = db.all<Fields & { id: string }>(
      "SELECT id, username, password_hash, setting_hash FROM auth_administrator",
    );
    for (const row of rows) await unless("CONFLICT", () => records.insert({ ...row }));
    await db.write([{ sql: "DROP TABLE auth_administrator" }]);
  } finally {
    await releaseDatabase(path);
  }
}

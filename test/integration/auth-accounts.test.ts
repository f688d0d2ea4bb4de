import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { type Config, loadConfig } from "../../lib/config.ts";
import { acquireMongo } from "../../lib/mongo/connection.ts";
import { openRecords } from "../../lib/store/open-records.ts";
import { defineCollection } from "../../lib/store/record-store.ts";
import { AccountStore } from "../../services/auth/account-store.ts";
import { openTokens } from "../../services/auth/open-tokens.ts";
import { hashPassword, verifyPassword } from "../../services/auth/password.ts";
import type { TokenStore } from "../../services/auth/token-store.ts";
import { serversForTests } from "../support/servers.ts";

const FIRST = "first password 1";
const SECOND = "second password 2";

let dir: string;
let config: Config;
const opened: { close(): Promise<void> }[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-accounts-"));
});
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
  await rm(dir, { recursive: true, force: true });
});

/** What one node opens. */
async function node(): Promise<{ accounts: AccountStore; tokens: TokenStore }> {
  const accounts = await AccountStore.open(config);
  opened.push(accounts);
  const tokens = await openTokens(config);
  opened.push(tokens);
  return { accounts, tokens };
}
const opens = async ({ accounts }: { accounts: AccountStore }, password: string) =>
  verifyPassword(password, (await accounts.administrator("admin"))?.password_hash ?? "");
const signIn = async ({ accounts, tokens }: Awaited<ReturnType<typeof node>>, n: number) => {
  const now = Date.now();
  const digest = String(n).padStart(64, "0");
  const accountId = (await accounts.administrator("admin"))!.id;
  const times = { createdAt: now, expiresAt: now + 60_000 };
  await tokens.issue({ digest, realm: "admin", accountId, name: "admin", ...times }, 5);
  return digest;
};

function accountCases(): void {
  test("of nodes that start at once one creates the administrator, and all have the same", async () => {
    const nodes = await Promise.all([node(), node(), node()]);
    await Promise.all(nodes.map((one) => one.accounts.adoptSetting(FIRST, one.tokens)));
    const accounts = await Promise.all(nodes.map((one) => one.accounts.administrator("admin")));
    expect(new Set(accounts.map((account) => account?.password_hash)).size).toBe(1);
    expect(await opens(nodes[0]!, FIRST)).toBe(true);
  });

  test("a changed setting changes the password and ends the sign-ins, once, however many nodes start", async () => {
    const first = await node();
    await first.accounts.adoptSetting(FIRST, first.tokens);
    const digest = await signIn(first, 1);
    const nodes = await Promise.all([node(), node()]);
    const ended = await Promise.all(
      nodes.map((one) => one.accounts.adoptSetting(SECOND, one.tokens)),
    );
    expect(ended.flat()).toEqual([digest]);
    expect(await first.tokens.find(digest, Date.now())).toBeUndefined();
    expect([await opens(first, FIRST), await opens(first, SECOND)]).toEqual([false, true]);
    const later = await signIn(first, 2);
    const restarted = await node();
    expect(await restarted.accounts.adoptSetting(SECOND, restarted.tokens)).toEqual([]);
    expect(await restarted.tokens.find(later, Date.now())).toBeDefined();
  });

  test("a change that was interrupted before the sign-ins ended is done again by the next start", async () => {
    const first = await node();
    await first.accounts.adoptSetting(FIRST, first.tokens);
    const digest = await signIn(first, 1);
    const dying = await node();
    const broken = { revokeAccount: () => Promise.reject(new Error("killed")) };
    await expect(
      dying.accounts.adoptSetting(SECOND, broken as unknown as TokenStore),
    ).rejects.toThrow("killed");
    expect(await first.tokens.find(digest, Date.now())).toBeDefined();
    const next = await node();
    expect(await next.accounts.adoptSetting(SECOND, next.tokens)).toEqual([digest]);
    expect(await opens(next, SECOND)).toBe(true);
  });
}

describe("accounts in SQLite", () => {
  beforeEach(() => {
    config = loadConfig({ DATA_DIR: dir }).config;
  });
  accountCases();

  test("those of version 0.1, in a table of their own, are taken over with their ids and sign-ins", async () => {
    const hash = await hashPassword(FIRST);
    const db = new DatabaseSync(join(dir, "records.sqlite"));
    db.exec(`CREATE TABLE auth_administrator (
      id TEXT PRIMARY KEY, username TEXT NOT NULL UNIQUE, password_hash TEXT NOT NULL,
      setting_hash TEXT, created_at INTEGER NOT NULL) STRICT;
      CREATE TABLE auth_token (
      digest TEXT PRIMARY KEY, realm TEXT NOT NULL, account_id TEXT NOT NULL, name TEXT NOT NULL,
      created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL) STRICT`);
    const insert = db.prepare("INSERT INTO auth_administrator VALUES (?, ?, ?, ?, ?)");
    insert.run("id-of-0.1", "admin", hash, hash, 1);
    insert.run("id-of-eve", "eve", hash, null, 2);
    const ends = Date.now() + 60_000;
    db.prepare("INSERT INTO auth_token VALUES (?, 'admin', 'id-of-0.1', 'admin', 1, ?)").run(
      "d".repeat(64),
      ends,
    );
    db.close();
    const updated = await node();
    expect(await updated.accounts.adoptSetting(FIRST, updated.tokens)).toEqual([]);
    expect(await updated.accounts.administrator("admin")).toMatchObject({
      id: "id-of-0.1",
      password_hash: hash,
      setting_hash: hash,
    });
    expect(await updated.accounts.administrator("eve")).toMatchObject({ id: "id-of-eve" });
    expect(await updated.tokens.find("d".repeat(64), Date.now())).toMatchObject({
      accountId: "id-of-0.1",
    });
    const again = await node();
    expect(await again.accounts.administrator("admin")).toMatchObject({ id: "id-of-0.1" });
  });

  test("a takeover that was interrupted goes on with the next start", async () => {
    const hash = await hashPassword(FIRST);
    const name = defineCollection({ name: "administrator", filters: { username: "text" } });
    const records = await openRecords(config, name);
    await records.insert({ id: "id-of-0.1", username: "admin", password_hash: hash });
    await records.close();
    const db = new DatabaseSync(join(dir, "records.sqlite"));
    db.exec(`CREATE TABLE auth_administrator (
      id TEXT PRIMARY KEY, username TEXT NOT NULL UNIQUE, password_hash TEXT NOT NULL,
      setting_hash TEXT, created_at INTEGER NOT NULL) STRICT`);
    const insert = db.prepare("INSERT INTO auth_administrator VALUES (?, ?, ?, NULL, 1)");
    insert.run("id-of-0.1", "admin", hash);
    insert.run("id-of-eve", "eve", hash);
    db.close();
    const { accounts } = await node();
    expect(await accounts.administrator("admin")).toMatchObject({ id: "id-of-0.1" });
    expect(await accounts.administrator("eve")).toMatchObject({ id: "id-of-eve" });
  });
});

const servers = await serversForTests("mongo");
servers.describe("with a MongoDB server", () => {
  let places = 0;
  describe("accounts in MongoDB", () => {
    beforeEach(() => {
      places += 1;
      config = loadConfig({
        DATA_DIR: dir,
        MONGO_URL: servers.mongoUrl(`accounts-${places}`),
      }).config;
    });
    afterEach(async () => {
      const { connection, release } = await acquireMongo(config.MONGO_URL!);
      await connection.dropDatabase();
      await release();
    });
    accountCases();
  });
});

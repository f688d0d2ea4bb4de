import { createHash, timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import { LRUCache } from "lru-cache";
import type { Actor } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import { implementService, type ServiceHost } from "../../lib/service.ts";
import { acquireDatabase, releaseDatabase } from "../../lib/sqlite/database.ts";
import { AccountStore } from "./account-store.ts";
import { authContract } from "./auth.contract.ts";
import { authLimits } from "./config.ts";
import { answered, type Failures, failed, waitOf } from "./login-throttle.policy.ts";
import { unmatchable, verifyPassword } from "./password.ts";

interface State {
  store: AccountStore;
  /** Digests of the two fixed tokens, so that the comparison takes the same time for any text. */
  fixed: { digest: Buffer; actor: Actor }[];
  verified: LRUCache<string, { actor: Actor; expiresAt: number }>;
  failures: LRUCache<string, Failures>;
  /** Settled when the first administrator is as ADMIN_PASSWORD says; deriving that must not delay the start. */
  adopted: Promise<void>;
}

const sha256 = (text: string) => createHash("sha256").update(text).digest();
const databasePath = ({ config }: ServiceHost) => join(config.DATA_DIR, "records.sqlite");

async function open(host: ServiceHost): Promise<State> {
  const { config } = host;
  const store = new AccountStore(await acquireDatabase(databasePath(host)));
  await store.prepare();
  const adopted = store.adoptSetting(config.ADMIN_PASSWORD, Date.now());
  adopted.catch((error) => host.logger.error("the first administrator could not be set up", error));
  return {
    store,
    fixed: [
      { digest: sha256(config.MCP_TOKEN), actor: { realm: "agent", id: "mcp-token" } },
      { digest: sha256(config.BRIDGE_TOKEN), actor: { realm: "bridge", id: "bridge-token" } },
    ],
    verified: new LRUCache({ max: authLimits.verifyCacheMax, ttl: authLimits.verifyCacheMs }),
    failures: new LRUCache({ max: authLimits.throttleMax, ttl: authLimits.forgetMs }),
    adopted,
  };
}

async function verify(
  { store, fixed, verified, adopted }: State,
  token: string,
): Promise<Actor | null> {
  const given = sha256(token);
  const known = fixed.filter(({ digest }) => timingSafeEqual(digest, given))[0];
  if (known) return known.actor;
  await adopted;
  const digest = given.toString("hex");
  const found = verified.get(digest) ?? store.find(digest);
  if (!found || found.expiresAt <= Date.now()) return null;
  verified.set(digest, found);
  return found.actor;
}

async function login(
  { store, failures, adopted }: State,
  { username, password }: { username: string; password: string },
  address: string,
) {
  const key = `${username}\n${address}`;
  const waitMs = waitOf(failures.get(key), Date.now());
  if (waitMs > 0) throw new AppError("RATE_LIMITED", { seconds: Math.ceil(waitMs / 1000) });
  // Counted before the check: tries sent at the same time must not all be free.
  failures.set(key, failed(failures.get(key), Date.now()));
  await adopted;
  const account = store.administrator(username);
  const matches = await verifyPassword(password, account?.password_hash ?? unmatchable());
  if (!account || !matches) {
    const counted = failures.get(key);
    if (counted) failures.set(key, answered(counted, Date.now()));
    throw new AppError("LOGIN_REJECTED");
  }
  failures.delete(key);
  const actor: Actor = { realm: "admin", id: account.id, name: account.username };
  const issued = await store.issue(actor, Date.now());
  return { ...issued, user: { id: account.id, username: account.username } };
}

export const authService = implementService(authContract, {
  start: open,
  stop: async ({ adopted }, host) => {
    await adopted.catch(() => undefined);
    await releaseDatabase(databasePath(host));
  },
  handlers: {
    verify: (ctx, state) => verify(state, ctx.params.token),
    adminLogin: (ctx, state) => login(state, ctx.params, ctx.meta.clientAddress ?? ""),
    adminLogout: async (ctx, { store, verified }, host) => {
      const session = ctx.meta.actor?.session;
      if (session === undefined) return {};
      await store.revoke(session);
      verified.delete(session);
      // Other nodes believe a checked token for a while; they hear of its end at once.
      host.broker.broadcast("auth.revoked", { session });
      return {};
    },
  },
  events: {
    "auth.revoked": (payload, { verified }) => {
      verified.delete((payload as { session: string }).session);
    },
  },
});

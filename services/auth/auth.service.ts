import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Actor } from "../../lib/contract.ts";
import { AppError } from "../../lib/errors.ts";
import { clientNetworkOf } from "../../lib/net/client-network.policy.ts";
import { acquireRedis, type RedisHandle } from "../../lib/redis.ts";
import { implementService, type ServiceHost } from "../../lib/service.ts";
import { AccountStore, administrators } from "./account-store.ts";
import { authContract } from "./auth.contract.ts";
import { CodeStore } from "./code-store.ts";
import { authLimits } from "./config.ts";
import { MemoryTexts, RedisTexts } from "./expiring-texts.ts";
import { LoginThrottle } from "./login-throttle.ts";
import { openTokens } from "./open-tokens.ts";
import { unmatchable, verifyPassword } from "./password.ts";
import type { TokenStore } from "./token-store.ts";

interface State {
  accounts: AccountStore;
  tokens: TokenStore;
  /** Digests of the two fixed tokens, so that the comparison takes the same time for any text. */
  fixed: { digest: Buffer; actor: Actor }[];
  verified: LRUCache<string, { actor: Actor; expiresAt: number }>;
  /** Tokens that ended just now: what was read of one before it ended must not be believed after. */
  ended: LRUCache<string, true>;
  throttle: LoginThrottle;
  codes: CodeStore;
  redis: RedisHandle | undefined;
  /** The first administrator becomes as ADMIN_PASSWORD says. */
  adoption: Adoption;
}

const sha256 = (text: string) => createHash("sha256").update(text).digest();

async function open(host: ServiceHost): Promise<State> {
  const { config } = host;
  const accounts = await AccountStore.open(config);
  const tokens = await openTokens(config).catch(async (error) => {
    await accounts.close();
    throw error;
  });
  const redis = acquireRedis(
    config,
    "Verification codes cannot be sent or checked, and failed logins are counted by each node for itself.",
  );
  await redis?.settled;
  // What Redis keeps of a token and what this node keeps follow each other: together they last no longer.
  const verifiedMs = authLimits.verifyCacheMs - (redis ? authLimits.sharedTokenMs : 0);
  const state: State = {
    accounts,
    tokens,
    redis,
    throttle: new LoginThrottle(redis),
    codes: new CodeStore(
      redis ? new RedisTexts(redis, "code") : new MemoryTexts(authLimits.codesMax),
      config.STORAGE_SECRET,
    ),
    fixed: [
      { digest: sha256(config.MCP_TOKEN), actor: { realm: "agent", id: "mcp-token" } },
      { digest: sha256(config.BRIDGE_TOKEN), actor: { realm: "bridge", id: "bridge-token" } },
    ],
    verified: new LRUCache({ max: authLimits.verifyCacheMax, ttl: verifiedMs }),
    ended: new LRUCache({ max: authLimits.verifyCacheMax, ttl: authLimits.verifyCacheMs }),
    adoption: new Adoption(async () => {
      forget(host, state, await accounts.adoptSetting(config.ADMIN_PASSWORD, tokens));
    }),
  };
  // Deriving a password takes a while and must not delay the start.
  state.adoption
    .done()
    .catch((error) => host.logger.error("the first administrator could not be set up", error));
  return state;
}

/** Work that must have been done once. */
class Adoption {
  readonly #work: () => Promise<void>;
  #run: Promise<void> | undefined;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Resolves when it is done; all who ask share one run, and after a failure the next who asks starts another. */
  done(): Promise<void> {
    this.#run ??= this.#work().catch((error) => {
      this.#run = undefined;
      throw error;
    });
    return this.#run;
  }

  /** Resolves when no run is under way. */
  async settled(): Promise<void> {
    await this.#run?.catch(() => undefined);
  }
}

/** Other nodes believe a checked token for a while; they hear of its end at once. */
function forget(host: ServiceHost, state: State, sessions: readonly string[]): void {
  for (const session of sessions) {
    end(state, session);
    host.broker.broadcast("auth.revoked", { session });
  }
}

function end({ verified, ended }: State, session: string): void {
  ended.set(session, true);
  verified.delete(session);
}

async function verify(state: State, token: string): Promise<Actor | null> {
  const { fixed, verified, ended, tokens, adoption } = state;
  const given = sha256(token);
  const known = fixed.filter(({ digest }) => timingSafeEqual(digest, given))[0];
  if (known) return known.actor;
  const digest = given.toString("hex");
  const believed = verified.get(digest);
  if (believed && believed.expiresAt > Date.now()) return believed.actor;
  await adoption.done();
  const found = await tokens.find(digest, Date.now());
  if (!found || ended.has(digest)) return null;
  const { realm, accountId, name, expiresAt } = found;
  const actor: Actor = { realm, id: accountId, name, session: digest };
  verified.set(digest, { actor, expiresAt });
  return actor;
}

async function login(
  host: ServiceHost,
  state: State,
  { username, password }: { username: string; password: string },
  address: string,
) {
  const { accounts, throttle, adoption } = state;
  const key = `${username}\n${clientNetworkOf(address)}`;
  const waitMs = await throttle.begin(key, Date.now());
  if (waitMs > 0) throw new AppError("RATE_LIMITED", { seconds: Math.ceil(waitMs / 1000) });
  await adoption.done();
  const account = await accounts.administrator(username);
  const matches = await verifyPassword(password, account?.password_hash ?? unmatchable());
  if (!account || !matches) {
    await throttle.wrong(key, Date.now());
    throw new AppError("LOGIN_REJECTED");
  }
  const issued = await issue(host, state, { realm: "admin", id: account.id, name: username });
  // A password that was changed meanwhile ended the sign-ins before this one was stored.
  if ((await accounts.administrator(username))?.password_hash !== account.password_hash) {
    await state.tokens.revoke(issued.digest);
    throw new AppError("LOGIN_REJECTED");
  }
  await throttle.right(key);
  const { token, expiresAt } = issued;
  return { token, expiresAt, user: { id: account.id, username } };
}

/** A fresh 256-bit token; the oldest beyond `tokensMax` ends. */
async function issue(host: ServiceHost, state: State, actor: Required<Omit<Actor, "session">>) {
  const token = randomBytes(32).toString("base64url");
  const digest = sha256(token).toString("hex");
  const createdAt = Date.now();
  const expiresAt = createdAt + authLimits.tokenMs;
  const { realm, id: accountId, name } = actor;
  const entry = { digest, realm, accountId, name, createdAt, expiresAt };
  forget(host, state, await state.tokens.issue(entry, authLimits.tokensMax));
  return { token, digest, expiresAt };
}

const authHandlers = implementService(authContract, {
  start: open,
  stop: async ({ adoption, accounts, tokens, redis }) => {
    await adoption.settled();
    await tokens.close();
    await redis?.release();
    await accounts.close();
  },
  handlers: {
    verify: (ctx, state) => verify(state, ctx.params.token),
    adminLogin: (ctx, state, host) => login(host, state, ctx.params, ctx.meta.clientAddress ?? ""),
    adminLogout: async (ctx, state, host) => {
      const session = ctx.meta.actor?.session;
      if (session === undefined) return {};
      await state.tokens.revoke(session);
      forget(host, state, [session]);
      return {};
    },
    issueCode: (ctx, { codes }) => codes.issue(ctx.params, Date.now()),
    checkCode: async (ctx, { codes }) => {
      const { code, ...subject } = ctx.params;
      return { verdict: await codes.check(subject, code, Date.now()) };
    },
  },
  events: {
    "auth.revoked": (payload, state) => end(state, (payload as { session: string }).session),
  },
});

export const authService = { ...authHandlers, collections: [administrators] };

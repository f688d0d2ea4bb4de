import type { SqliteTokenStore } from "../../services/auth/sqlite-token-store.ts";
import type { TokenStore } from "../../services/auth/token-store.ts";
import { Comparison } from "./comparison.ts";
import { moveLimits } from "./limits.ts";
import { askEach, batches, type MoveWork } from "./move-work.ts";
import type { Compared } from "./summary.plan.ts";

/** No token of the target ends because others come. */
const ALL = 1_000_000_000;

/** Login tokens that are still good; what has ended is nobody's any more. */
export async function carryTokens(
  source: SqliteTokenStore,
  target: TokenStore,
  { signal, show }: MoveWork,
): Promise<void> {
  const now = Date.now();
  let done = 0;
  for await (const tokens of batches(source.current(now), moveLimits.tokensAtOnce)) {
    signal.throwIfAborted();
    await askEach(tokens, async (token) => {
      if (!(await target.find(token.digest, now))) await target.issue(token, ALL);
    });
    done += tokens.length;
    show("login tokens", done, done);
  }
}

export async function compareTokens(
  source: SqliteTokenStore,
  target: TokenStore,
  { signal }: MoveWork,
): Promise<Compared> {
  const comparison = new Comparison("login tokens");
  // The same moment for both: what ends meanwhile is gone on neither side.
  const now = Date.now();
  for await (const tokens of batches(source.current(now), moveLimits.tokensAtOnce)) {
    signal.throwIfAborted();
    const found = await askEach(tokens, ({ digest }) => target.find(digest, now));
    for (const [n, token] of tokens.entries())
      comparison.add(`a login token of ${token.realm} ${token.name}`, token, found[n]);
  }
  return comparison.result(0);
}

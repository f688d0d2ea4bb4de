import { setTimeout as delay } from "node:timers/promises";
import { schedulerConfig } from "../../services/scheduler/config.ts";
import type { JobStore } from "../../services/scheduler/job-store.ts";
import { claimOn, leaderTimes, sighted } from "../../services/scheduler/leadership.policy.ts";
import { MoveError } from "./move-error.ts";

export interface HeldLeadership {
  term: number;
  /** Gives it back: the cluster's schedulers need not wait. */
  resign(): Promise<void>;
}

/**
 * Leads in the target while jobs come in, so that no scheduler of the cluster does. A leader that shows a sign of life
 * is not deposed.
 * @param lost called when another has taken over after all.
 * @throws MoveError naming who leads there.
 */
export async function leadTarget(
  store: JobStore,
  holder: string,
  { lost, waiting }: { lost: (why: MoveError) => void; waiting: (who: string) => void },
): Promise<HeldLeadership> {
  const times = leaderTimes(schedulerConfig.leaderLeaseMs);
  const first = await store.leadership();
  let seen = sighted(undefined, first, performance.now());
  for (let looks = 0; ; looks += 1) {
    const claim = claimOn(seen, performance.now(), {
      holder,
      leaseMs: times.leaseMs,
      isExclusive: false,
    });
    const taken = claim && (await store.takeOver(seen.leadership, holder));
    if (taken) return held(store, taken.term, times.renewMs, lost);
    if (looks === 0) waiting(first.holder);
    await delay(times.pollMs);
    seen = sighted(seen, await store.leadership(), performance.now());
    const { term, beat, holder: leads } = seen.leadership;
    if (leads !== "" && (term !== first.term || beat !== first.beat))
      throw new MoveError(
        `a scheduler leads in the target: ${leads}. Stop all nodes of the cluster that use this database, then run the same command again`,
      );
  }
}

function held(
  store: JobStore,
  term: number,
  renewMs: number,
  lost: (why: MoveError) => void,
): HeldLeadership {
  const renewals = setInterval(async () => {
    // A store that does not answer is noticed by the work itself.
    const isHeld = await store.renew(term).catch(() => true);
    if (!isHeld)
      lost(
        new MoveError(
          "a scheduler of the cluster has taken over in the target meanwhile. Stop all nodes of the cluster that use this database, then run the same command again",
        ),
      );
  }, renewMs);
  return {
    term,
    async resign() {
      clearInterval(renewals);
      await store.resign(term);
    },
  };
}

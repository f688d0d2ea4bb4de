import { implementService, type ServiceDefinition, type ServiceHost } from "../../lib/service.ts";
import { schedulerConfig } from "./config.ts";
import { Election } from "./election.ts";
import type { JobStore } from "./job-store.ts";
import { LeaderOffice } from "./leader-office.ts";
import { openJobStore } from "./open-job-store.ts";
import { schedulerContract } from "./scheduler.contract.ts";
import { schedulerElectionContract } from "./scheduler-election.contract.ts";

interface State {
  election: Election;
  store: JobStore;
}

/** Between the node's name and the mark of its run, in the name of the leadership's holder. */
const RUN_MARK = "#";

async function start(host: ServiceHost, store: JobStore): Promise<State> {
  const { broker, logger } = host;
  const office = new LeaderOffice(host, store, {
    holdsLease: (term) => election.holdsLease(term),
    deposed: (term) => election.deposed(term),
  });
  const election: Election = new Election(
    {
      store,
      holder: `${broker.nodeID}${RUN_MARK}${broker.instanceID}`,
      nowMonotonic: () => performance.now(),
      after(delayMs, run) {
        const timer = setTimeout(run, delayMs);
        return () => clearTimeout(timer);
      },
      lead: (term) => office.open(term),
      stepDown: (term) => office.close(term),
      log: (level, text) => logger[level](text),
    },
    schedulerConfig.leaderLeaseMs,
  );
  await election.start();
  return { election, store };
}

/** Takes part in the election of the scheduler's leader; the leader's node hosts the service `scheduler` beside it. */
export const schedulerElectionService = {
  ...implementService(schedulerElectionContract, {
    start: async (host) => start(host, await openJobStore(host.config)),
    async stop({ election, store }: State) {
      await election.stop();
      await store.close();
    },
    handlers: {
      status: (_ctx, { election }) => {
        const { holder, ...status } = election.status;
        return { ...status, holder: holder.split(RUN_MARK)[0] ?? "" };
      },
    },
  }),
  hosts: [schedulerContract],
} as unknown as ServiceDefinition;

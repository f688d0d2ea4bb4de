import { join } from "node:path";
import { isEdgeCall } from "../../lib/access.middleware.ts";
import { AppError } from "../../lib/errors.ts";
import { implementService, type ServiceHost, systemActor } from "../../lib/service.ts";
import { schedulerConfig } from "./config.ts";
import { checkPayload } from "./job-kinds.ts";
import { Leader, type LeaderPorts } from "./leader.ts";
import { schedulerContract } from "./scheduler.contract.ts";
import { SqliteJobStore } from "./sqlite-job-store.ts";
import { WakeTimer } from "./wake-timer.ts";

interface State {
  leader: Leader;
  store: SqliteJobStore;
  timer: WakeTimer;
}

/** The leader's ports over the mesh. A call that gets no answer rejects: the leader takes it as unknown. */
function portsOf(host: ServiceHost, store: SqliteJobStore, rearm: () => void): LeaderPorts {
  const { nodeCallMs, deliveryCallMs } = schedulerConfig;
  return {
    store,
    term: 0,
    deposed: () => undefined,
    holdsLease: () => true,
    now: Date.now,
    random: Math.random,
    begin: (node, order) =>
      host.call("compose.begin", order, { nodeID: node, timeout: nodeCallMs }),
    halt: (node, ref) => host.call("compose.halt", ref, { nodeID: node, timeout: nodeCallMs }),
    probe: (node) => host.call("compose.probe", {}, { nodeID: node, timeout: nodeCallMs }),
    // The action's name is data, given by the service that submitted the job: no type can know it.
    deliver: ({ action, params }) =>
      host.broker.call(action, params, { timeout: deliveryCallMs, meta: { actor: systemActor } }),
    log: (level, text) => host.logger[level](text),
    rearm,
  };
}

async function start(host: ServiceHost): Promise<State> {
  const store = await SqliteJobStore.open(join(host.config.DATA_DIR, "jobs.sqlite"));
  const timer = new WakeTimer((error) => host.logger.error("tick failed", error));
  const leader = await Leader.open(portsOf(host, store, () => timer.rearm()));
  timer.start(leader);
  return { leader, store, timer };
}

export const schedulerService = implementService(schedulerContract, {
  start,
  async stop({ leader, store, timer }: State) {
    timer.stop();
    leader.close();
    await store.close();
  },
  events: {
    "$node.disconnected": (payload, { leader }) => {
      const { node } = payload as { node?: { id?: string } };
      if (node?.id) void leader.nodeLost(node.id);
    },
  },
  handlers: {
    submit: (ctx, { leader }) => {
      const { params, meta } = ctx;
      const actor = meta.actor ?? systemActor;
      // A callback is called as the system itself: whoever comes from outside must not choose one.
      if (params.onSettled && isEdgeCall(ctx) && actor.realm !== "system")
        throw new AppError("FORBIDDEN", { reason: "onSettled is for services" });
      return leader.submit({
        ...params,
        owner: params.owner ?? `${actor.realm}:${actor.id}`,
        payload: checkPayload(params.kind, params.payload),
      });
    },
    get: ({ params }, { leader }) => leader.get(params.id),
    list: ({ params }, { leader }) => leader.list(params),
    log: ({ params: { id, after, limit } }, { leader }) => leader.readLog(id, { after, limit }),
    cancel: ({ params }, { leader }) => leader.cancel(params.id, params.reason),
    retry: ({ params }, { leader }) => leader.retry(params.id),
    pause: async ({ params: { queue } }, { leader }) => {
      await leader.pause(queue);
      return { queue, paused: true };
    },
    resume: async ({ params: { queue } }, { leader }) => {
      await leader.resume(queue);
      return { queue, paused: false };
    },
    stats: (_ctx, { leader }) => leader.stats(),
    nodes: (_ctx, { leader }) => ({ nodes: leader.nodes() }),
    heartbeat: ({ params }, { leader }) => leader.heartbeat(params.report, params.attempts),
    complete: ({ params }, { leader }) => leader.complete(params),
    fail: ({ params }, { leader }) => leader.fail(params),
    handBack: ({ params }, { leader }) => leader.handBack(params),
    addLog: async ({ params }, { leader }) => {
      await leader.addLog(params.jobId, params.attempt, params.lines);
      return {};
    },
  },
});

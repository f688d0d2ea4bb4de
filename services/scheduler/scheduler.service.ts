import { isEdgeCall } from "../../lib/access.middleware.ts";
import { AppError } from "../../lib/errors.ts";
import {
  implementService,
  type NodeEnv,
  type ServiceDefinition,
  systemActor,
} from "../../lib/service.ts";
import { noteOnSpan, traceparentOf } from "../../lib/telemetry/telemetry.middleware.ts";
import { schedulerConfig } from "./config.ts";
import type { HeartbeatAnswer } from "./job.types.ts";
import { checkPayload } from "./job-kinds.ts";
import { jobMeterOf } from "./job-meter.ts";
import type { Leader } from "./leader.ts";
import { schedulerContract } from "./scheduler.contract.ts";

/** Counts what a node was told that is not its own any more. */
export const countFencing =
  ({ config }: NodeEnv) =>
  <A extends { fenced: HeartbeatAnswer["fenced"] } | { outcome: string }>(answer: A): A => {
    const meter = jobMeterOf(config);
    if ("fenced" in answer) meter?.fenced(answer.fenced);
    else if (answer.outcome === "fenced") meter?.lateReport();
    return answer;
  };

/** The service `scheduler` of the leader of one term. Callers who see two of them choose the later term. */
export function schedulerOf(leader: Leader, term: number): ServiceDefinition {
  const { contract, schema } = implementService(schedulerContract, {
    start: () => ({ leader }),
    events: {
      "$node.disconnected": (payload, { leader }) => {
        const { node } = payload as { node?: { id?: string } };
        if (node?.id) void leader.nodeLost(node.id);
      },
    },
    handlers: {
      submit: async (ctx, { leader }, { config }) => {
        const { params, meta } = ctx;
        const actor = meta.actor ?? systemActor;
        // A callback is called as the system itself: whoever comes from outside must not choose one.
        if (params.onSettled && isEdgeCall(ctx) && actor.realm !== "system")
          throw new AppError("FORBIDDEN", { reason: "onSettled is for services" });
        const answer = await leader.submit({
          ...params,
          owner: params.owner ?? `${actor.realm}:${actor.id}`,
          payload: checkPayload(params.kind, params.payload),
          trace: traceparentOf(ctx),
        });
        noteOnSpan(ctx, { "job.id": answer.id, "job.kind": answer.kind });
        if (!answer.repeated) jobMeterOf(config)?.accepted(answer.queue);
        return answer;
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
      heartbeat: ({ params }, { leader }, host) =>
        leader.heartbeat(params.report, params.attempts).then(countFencing(host)),
      complete: ({ params }, { leader }, host) => leader.complete(params).then(countFencing(host)),
      fail: ({ params }, { leader }, host) => leader.fail(params).then(countFencing(host)),
      handBack: ({ params }, { leader }) => leader.handBack(params),
      addLog: async ({ params }, { leader }) => {
        await leader.addLog(params.jobId, params.attempt, params.lines);
        return {};
      },
    },
  });
  return {
    contract,
    schema: (env) => ({
      ...schema(env),
      settings: { $shutdownTimeout: schedulerConfig.termEndMs },
      metadata: { term },
    }),
  };
}

import type { CallingOptions, Middleware, ServiceBroker } from "moleculer";
import type { ServiceContract } from "./contract.ts";
import { AppError, asAppError } from "./errors.ts";

/** First and longest pause between two tries, in milliseconds. */
const pauseMsMin = 25;
const pauseMsMax = 400;

interface HostedService {
  name: string;
  metadata?: { term?: number };
  node?: { id: string; available: boolean };
}

/** The hosts of a service that only a leader hosts, by term: after a failover an earlier one may still be announced. */
class LeaderWatch {
  readonly #broker: ServiceBroker;
  readonly #known = new Map<string, { nodeID: string; term: number; hosts: number } | undefined>();
  readonly #waiting = new Set<() => void>();
  isClosed = false;

  constructor(broker: ServiceBroker) {
    this.#broker = broker;
    const changed = () => {
      this.#known.clear();
      for (const tell of [...this.#waiting]) tell();
    };
    for (const event of ["$services.changed", "$node.connected", "$node.disconnected"])
      broker.localBus.on(event, changed);
  }

  /** The host with the latest term. */
  leader(service: string) {
    if (!this.#known.has(service)) {
      const { services } = (
        this.#broker.registry as unknown as { services: { services: HostedService[] } }
      ).services;
      const hosts = services.filter(({ name, node }) => name === service && node?.available);
      const terms = hosts.map(({ node, metadata }) => ({
        nodeID: node?.id as string,
        term: metadata?.term ?? 0,
      }));
      const [latest] = terms.sort((a, b) => b.term - a.term);
      this.#known.set(service, latest && { ...latest, hosts: hosts.length });
    }
    return this.#known.get(service);
  }

  termOf(service: string): number {
    return this.leader(service)?.term ?? 0;
  }

  /** Ends after this time, or as soon as a later term than `term` is known. */
  wait(service: string, term: number, waitMs: number): { ended: Promise<void>; end: () => void } {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const timer = Number.isFinite(waitMs) ? setTimeout(() => end(), waitMs) : undefined;
    const look = () => {
      if (this.isClosed || this.termOf(service) > term) end();
    };
    const end = () => {
      clearTimeout(timer);
      this.#waiting.delete(look);
      resolve();
    };
    this.#waiting.add(look);
    return { ended, end };
  }

  close(): void {
    this.isClosed = true;
    for (const tell of [...this.#waiting]) tell();
  }
}

/** The called node has done nothing, for certain. */
function isNotDone(error: unknown, action: string): boolean {
  if (asAppError(error)?.type === "NOT_LEADER") return true;
  const { type, data } = error as { type?: string; data?: { action?: string } };
  return (
    (type === "SERVICE_NOT_FOUND" || type === "SERVICE_NOT_AVAILABLE") && data?.action === action
  );
}

/** No answer: the call may have been carried out. */
const isUnknown = (error: unknown): boolean =>
  ["REQUEST_TIMEOUT", "REQUEST_REJECTED"].includes((error as { type?: string }).type ?? "");

interface LeaderCall {
  action: string;
  service: string;
  /** Carrying it out twice is the same as once. */
  repeatable: boolean;
  timeoutMs: number;
  send: (options: { nodeID?: string; timeout?: number }) => Promise<unknown>;
}

const overtaken = Symbol("a later leader is known");

/** One try. If it may be repeated, nobody waits for the answer of a leader that another has followed. */
async function tryOnce(watch: LeaderWatch, call: LeaderCall, timeoutMs: number): Promise<unknown> {
  const leader = watch.leader(call.service);
  const options = timeoutMs > 0 ? { timeout: timeoutMs } : {};
  // Sent at once: Moleculer ties the context of the first call to what the caller gets.
  const answer = call.send(
    leader && leader.hosts > 1 ? { ...options, nodeID: leader.nodeID } : options,
  );
  if (!call.repeatable) return answer;
  const later = watch.wait(call.service, leader?.term ?? 0, Number.POSITIVE_INFINITY);
  try {
    return await Promise.race([answer, later.ended.then(() => overtaken)]);
  } finally {
    later.end();
    answer.catch(() => undefined);
  }
}

/** Repeats what was not done, or does no harm twice, until a leader answers or the time is over. */
async function callLeader(watch: LeaderWatch, call: LeaderCall, waitMs: number): Promise<unknown> {
  const startedAt = performance.now();
  const endsAt = call.timeoutMs > 0 ? startedAt + call.timeoutMs : Number.POSITIVE_INFINITY;
  let deadline: number | undefined;
  let timeoutMs = call.timeoutMs;
  for (let pauseMs = pauseMsMin; ; pauseMs = Math.min(pauseMsMax, 2 * pauseMs)) {
    const term = watch.termOf(call.service);
    let failure: unknown = overtaken;
    try {
      const answer = await tryOnce(watch, call, timeoutMs);
      if (answer !== overtaken) return answer;
    } catch (error) {
      failure = error;
    }
    const notDone = failure === overtaken || isNotDone(failure, call.action);
    if (watch.isClosed || !(notDone || (call.repeatable && isUnknown(failure)))) throw failure;
    const now = performance.now();
    deadline ??= Math.min(now + waitMs, endsAt);
    if (now + pauseMs >= deadline)
      throw notDone
        ? new AppError("UNAVAILABLE", {
            reason: { en: "no scheduler leads at the moment", zh: "当前没有主调度节点" },
          })
        : failure;
    if (failure !== overtaken) await watch.wait(call.service, term, pauseMs).ended;
    timeoutMs = call.timeoutMs > 0 ? Math.max(1, endsAt - performance.now()) : 0;
  }
}

/**
 * Calls of a service that only an elected leader hosts (`leaderHosted` in its contract) go to the latest leader that is
 * known. What was certainly not done is repeated for up to `waitMs`; what may have been done only if the contract
 * calls the action idempotent, or the call carries an idempotency key. A caller's own time-out holds for all tries.
 */
export function leaderCallMiddleware(
  contracts: readonly ServiceContract[],
  waitMs: number,
): Middleware {
  const hosted = new Map(
    contracts
      .filter(({ leaderHosted }) => leaderHosted)
      .flatMap(({ name, actions }) =>
        Object.entries(actions).map(
          ([action, { idempotent = false }]) =>
            [`${name}.${action}`, { service: name, idempotent }] as const,
        ),
      ),
  );
  let watch: LeaderWatch;
  return {
    name: "leader-call",
    created(broker: ServiceBroker) {
      watch = new LeaderWatch(broker);
    },
    stopping: () => watch.close(),
    call(next: (action: string, params: unknown, options: CallingOptions) => Promise<unknown>) {
      return (action: string, params: unknown, options: CallingOptions = {}) => {
        const target = hosted.get(action as `${string}.${string}`);
        if (!target || options.nodeID) return next(action, params, options);
        const { idempotencyKey } = (params ?? {}) as { idempotencyKey?: unknown };
        const call: LeaderCall = {
          action,
          service: target.service,
          repeatable: target.idempotent || idempotencyKey !== undefined,
          timeoutMs: options.timeout ?? 0,
          send: (over) => next(action, params, { ...options, ...over }),
        };
        return callLeader(watch, call, waitMs);
      };
    },
  } as unknown as Middleware;
}

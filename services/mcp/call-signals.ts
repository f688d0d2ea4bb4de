import type { ServiceBroker } from "moleculer";
import type { Meta } from "../../lib/service.ts";

/**
 * Progress and cancellation of a tool call travel as events, since the tool may run on another node than
 * the one that talks to the agent. Both may get lost without harm: a tool that waits is bounded by itself.
 */
export const signals = { progress: "mcp.progress", cancelled: "mcp.cancelled" } as const;

export interface Progress {
  callId: string;
  progress: number;
  total: number;
  message?: string;
}

interface CallContext {
  meta: Meta;
  broadcast(event: string, payload: object): unknown;
}

const callIdOf = (ctx: CallContext) => ctx.meta["mcpCallId"] as string | undefined;

/**
 * Tells the agent how far a tool is, where its client asked for that. Resolves when the word is on its way,
 * so that the last one is not overtaken by the result.
 */
export async function reportProgress(
  ctx: CallContext,
  progress: number,
  total: number,
  message?: string,
): Promise<void> {
  const callId = callIdOf(ctx);
  if (callId) await ctx.broadcast(signals.progress, { callId, progress, total, message });
}

/** Tool calls under way on this node, by the id that the edge gave them. */
export class OpenCalls {
  readonly #open = new Map<string, AbortController>();

  /** Runs a tool with a signal that is aborted when the agent gives the call up. */
  async run<T>(ctx: CallContext, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    const callId = callIdOf(ctx);
    if (callId) this.#open.set(callId, controller);
    try {
      return await work(controller.signal);
    } finally {
      if (callId) this.#open.delete(callId);
    }
  }

  cancel(callId: string): void {
    this.#open.get(callId)?.abort();
  }

  cancelAll(): void {
    for (const controller of this.#open.values()) controller.abort();
  }
}

const listeners = new WeakMap<ServiceBroker, Map<string, (progress: Progress) => void>>();

/** Listeners for progress on this gateway's node; the first use adds the small service that hears the events. */
export function progressListeners(
  broker: ServiceBroker,
): Map<string, (progress: Progress) => void> {
  let known = listeners.get(broker);
  if (!known) {
    const open = new Map<string, (progress: Progress) => void>();
    broker.createService({
      name: "mcp-signals",
      events: {
        [signals.progress]: {
          handler: ({ params }: { params: Progress }) => open.get(params.callId)?.(params),
        },
      },
    });
    known = open;
    listeners.set(broker, known);
  }
  return known;
}

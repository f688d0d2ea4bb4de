import { AsyncLocalStorage } from "node:async_hooks";
import type { Span } from "./span.ts";

/** What the code that runs now works on: bound to log lines, and to calls that an attempt makes. */
export interface WorkScope {
  jobId?: string;
  attempt?: number;
  traceId?: string;
  requestId?: string;
  /** Span under which calls without a context of their own hang. Only attempts set it. */
  span?: Span;
}

const storage = new AsyncLocalStorage<WorkScope | undefined>();

export const currentWork = (): WorkScope | undefined => storage.getStore();

/** What an HTTP request carries that is sent on behalf of a recorded attempt. */
export const traceHeaders = (): Record<string, string> => {
  const traceparent = currentWork()?.span?.traceparent;
  return traceparent === undefined ? {} : { traceparent };
};

/** Runs something as part of this work, with all that it starts. */
export const withinWork = <T>(scope: WorkScope, run: () => T): T => storage.run(scope, run);

/**
 * Runs something that is part of no work: a timer that is armed while one job is handled also serves the others, and
 * must not carry the job on.
 */
export const outsideWork = <T>(run: () => T): T => storage.run(undefined, run);

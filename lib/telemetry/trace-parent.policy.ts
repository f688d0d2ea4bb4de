/** Place in a trace, as it travels between processes (W3C Trace Context, level 1). */
export interface TraceParent {
  /** 32 hexadecimal digits. */
  traceId: string;
  /** 16 hexadecimal digits: the span that the next one hangs under. */
  spanId: string;
  /** Whether whoever began the trace wants it recorded. */
  sampled: boolean;
}

const FORM = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;

/**
 * Reads a `traceparent`. A later version may carry more fields at its end; one of version 00 may not, and ids of
 * zeros only are none.
 * @returns nothing for anything else: the request then begins a trace of its own.
 */
export function parseTraceparent(text: unknown): TraceParent | undefined {
  if (typeof text !== "string" || text.length > 512) return undefined;
  const match = FORM.exec(text);
  if (!match) return undefined;
  const [, version = "", traceId = "", spanId = "", flags = "", more] = match;
  if (version === "ff" || (version === "00" && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export const traceparentText = ({ traceId, spanId, sampled }: TraceParent): string =>
  `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;

export type SpanAttributes = Record<string, string | number | boolean | undefined>;

/** One piece of recorded work. */
export interface Span {
  /** What a child in another process is told. */
  readonly traceparent: string;
  readonly traceId: string;
  set(attributes: SpanAttributes): void;
  /** @param error What it ended with; its type is kept, its text may carry secrets and is not. */
  end(error?: unknown): void;
}

export interface SpanStart {
  name: string;
  /** Traceparent or span above; nothing: a new trace. */
  parent: string | Span | undefined;
  kind?: "server" | "internal" | "consumer";
  attributes?: SpanAttributes;
}

/** Records traces and sends them to a collector. Nothing that fails in it reaches the work. */
export interface Tracing {
  /**
   * Where a request from outside belongs: the traceparent that it brought, "new" for a trace of its own, nothing when
   * it is not recorded.
   */
  admit(traceparent: unknown): string | "new" | undefined;
  begin(start: SpanStart): Span;
  /** Spans so far, by what became of them. */
  counts(): { ended: number; exported: number; failed: number };
  /** Sends what is left, within a bound. */
  close(): Promise<void>;
}

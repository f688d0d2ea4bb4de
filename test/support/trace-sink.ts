import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A span as the collector got it. */
export interface SeenSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  /** Node that recorded it. */
  node: string;
  attributes: Record<string, unknown>;
  failed: boolean;
}

export interface TraceSink {
  url: string;
  spans: SeenSpan[];
  /** Requests so far, also refused ones. */
  requests: () => number;
  /** Status of each answer from now on; 200 unless told. */
  answerWith(status: number): void;
  close(): Promise<void>;
}

interface Attribute {
  key: string;
  value: Record<string, unknown>;
}
const plain = (attributes: readonly Attribute[] = []) =>
  Object.fromEntries(
    attributes.map(({ key, value }) => {
      const [kind, raw] = Object.entries(value)[0] ?? [];
      return [key, kind === "intValue" ? Number(raw) : raw];
    }),
  );

/** A collector that takes OTLP over HTTP as JSON, as the specification writes it, and keeps what it got. */
export async function startTraceSink(): Promise<TraceSink> {
  const spans: SeenSpan[] = [];
  let status = 200;
  let requests = 0;
  const server = createServer((req, res) => {
    let text = "";
    req.setEncoding("utf8");
    req.on("data", (chunk: string) => {
      text += chunk;
    });
    req.on("end", () => {
      requests += 1;
      const isTraces = req.method === "POST" && req.url === "/v1/traces";
      const isJson = req.headers["content-type"] === "application/json";
      if (status === 200 && isTraces && isJson) keep(JSON.parse(text));
      res.writeHead(isTraces && isJson ? status : 400, { "content-type": "application/json" });
      res.end("{}");
    });
  });
  // biome-ignore lint/suspicious/noExplicitAny: a document of another system, read field by field
  function keep(body: any): void {
    for (const { resource, scopeSpans } of body.resourceSpans)
      for (const scope of scopeSpans)
        for (const span of scope.spans)
          spans.push({
            name: span.name,
            traceId: span.traceId,
            spanId: span.spanId,
            parentSpanId: span.parentSpanId ?? "",
            node: String(plain(resource.attributes)["service.instance.id"]),
            attributes: plain(span.attributes),
            failed: span.status?.code === 2,
          });
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests: () => requests,
    answerWith: (next) => {
      status = next;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

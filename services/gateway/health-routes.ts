import { answerOperational } from "../health/operational-answers.ts";
import type { OperationalPath } from "../health/operational-paths.ts";
import type { RawRoute } from "./raw-route.ts";

const route = (path: OperationalPath, summary: string): RawRoute => ({
  method: "GET",
  path,
  access: "public",
  selfGuarded: true,
  summary,
  async handle(req, res, { host }) {
    const { status, contentType, body } = await answerOperational(path, req, host);
    res.writeHead(status, { "Content-Type": contentType, "Cache-Control": "no-store" });
    res.end(req.method === "HEAD" ? undefined : body);
  },
});

/** What probes and Prometheus ask a gateway for. */
export const healthRoutes: readonly RawRoute[] = [
  route("/healthz", "200 while the gateway serves"),
  route("/readyz", "What this node depends on, each with its state; 503 when it cannot serve"),
  route("/metrics", "Numbers in Prometheus' text form, for this machine or METRICS_TOKEN"),
];

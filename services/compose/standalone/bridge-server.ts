import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "moleculer";
import { z } from "zod";
import type { Config } from "../../../lib/config.ts";
import { AppError } from "../../../lib/errors.ts";
import { describeIssues } from "../../../lib/issues.ts";
import { failure, sendJson } from "../../gateway/answer.ts";
import { EdgeServer } from "../../gateway/edge-server.ts";
import { readBody } from "../../gateway/request-body.ts";
import { metricsFor } from "../../health/metrics-access.ts";
import { operationalPaths } from "../../health/operational-paths.ts";
import { JobId } from "../../scheduler/scheduler.contract.ts";
import { sameText } from "../../storage/signed-link.ts";
import type { BridgeHost } from "./bridge-host.ts";
import {
  type AttemptAnswer,
  AttemptFields,
  AttemptQuery,
  BridgeAnswer,
  CancelAttempt,
  Installation,
  installationHeader,
  routeOfKind,
  StatusQuery,
} from "./bridge-wire.ts";
import { isPlainKind, schemaOf } from "./plain-jobs.ts";

const kindOfRoute = new Map(Object.entries(routeOfKind).map(([kind, path]) => [path, kind]));

const probes: readonly string[] = operationalPaths;
const isProbe = (path: string) => probes.includes(path);

interface Exchange {
  req: IncomingMessage;
  path: string;
  query: Record<string, string>;
}
/** Status and body. */
type Reply = [number, unknown];

const IdempotencyKey = z.string().min(1).max(200);

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = describeIssues(parsed.error);
  throw new AppError("INVALID_INPUT", {
    reason: issues.map(({ path, message }) => `${path || "(body)"}: ${message}`).join("; "),
    issues,
  });
}

/** A bridge's HTTP interface: the documented routes, and what a scheduler needs to keep leases over them. */
export class BridgeServer {
  readonly #edge: EdgeServer;
  readonly #token: string;
  readonly #log: Logger;
  #host: BridgeHost | undefined;

  private constructor(edge: EdgeServer, config: Config, log: Logger) {
    this.#edge = edge;
    this.#token = config.BRIDGE_TOKEN;
    this.#log = log;
  }

  /** Takes the address; until `serve` it answers 503. @throws ConfigError */
  static async listen(config: Config, log: Logger): Promise<BridgeServer> {
    return new BridgeServer(await EdgeServer.listen(config), config, log);
  }

  get port(): number {
    return this.#edge.port;
  }

  get url(): string {
    return this.#edge.url;
  }

  serve(host: BridgeHost): void {
    this.#host = host;
    this.#edge.serve((req, res) => void this.#handle(req, res));
  }

  close(): Promise<void> {
    return this.#edge.close();
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      const url = new URL(req.url ?? "/", "http://bridge");
      // Its signature is its permission.
      if (url.pathname.startsWith("/objects/"))
        return await this.#there.plain.objects.serve(req, res, url);
      const path = url.pathname.replace(/(?<=.)\/+$/, "");
      if (isProbe(path) && req.method === "GET") return await this.#probe(req, res, path);
      if (!isProbe(path)) this.#admit(req);
      const query = Object.fromEntries(url.searchParams);
      sendJson(req, res, ...(await this.#route({ req, path, query })));
    } catch (error) {
      failure("plain", req, res, error, this.#log);
    }
  }

  get #there(): BridgeHost {
    if (!this.#host) throw new AppError("UNAVAILABLE", { reason: "the bridge is starting" });
    return this.#host;
  }

  #admit(req: IncomingMessage): void {
    const given = /^Bearer +(\S+)$/i.exec(req.headers.authorization ?? "")?.[1];
    if (given === undefined)
      throw new AppError("UNAUTHENTICATED", { reason: "send Authorization: Bearer BRIDGE_TOKEN" });
    if (!sameText(given, this.#token))
      throw new AppError("UNAUTHENTICATED", { reason: "the token is not that of this bridge" });
  }

  /** As on every node of the product: probes are for everybody, numbers for this machine or METRICS_TOKEN. */
  async #probe(req: IncomingMessage, res: ServerResponse, path: string): Promise<void> {
    if (path === "/healthz") return sendJson(req, res, 200, { status: "ok" });
    if (path === "/readyz") {
      const report = await this.#there.readiness.read();
      return sendJson(req, res, report.status === "down" ? 503 : 200, report);
    }
    const { contentType, body } = await metricsFor(req, this.#there.config);
    res.writeHead(200, { "Content-Type": contentType, "Cache-Control": "no-store" });
    res.end(body);
  }

  async #route({ req, path, query }: Exchange): Promise<Reply> {
    const kind = kindOfRoute.get(path);
    const job = /^\/jobs\/([^/]+)(\/cancel)?$/.exec(path);
    const wanted = kind || path === "/answers" || job?.[2] ? "POST" : "GET";
    const isKnown = kind || job || isProbe(path) || ["/answers", "/status"].includes(path);
    if (!isKnown) throw new AppError("ROUTE_NOT_FOUND", { method: req.method, path });
    if (req.method !== wanted)
      throw new AppError("METHOD_NOT_ALLOWED", { method: req.method, path, allowed: [wanted] });
    const host = this.#there;
    const installation = req.headers[installationHeader];
    if (installation !== undefined) await host.admit(parse(Installation, installation));
    if (path === "/status") return [200, await host.status(parse(StatusQuery, query))];
    const body = wanted === "POST" ? await readBody(req, { multipart: false }) : {};
    if (path === "/answers") {
      host.answer(parse(BridgeAnswer, body));
      return [200, {}];
    }
    if (kind)
      return body["attempt"] === undefined ? plain(host, kind, req, body) : task(host, kind, body);
    const id = parse(JobId, job?.[1]);
    if (job?.[2])
      return body["attempt"] === undefined
        ? [200, await host.plain.cancel(id)]
        : [200, host.cancel(parse(CancelAttempt, { ...body, job_id: id }))];
    return query["attempt"] === undefined
      ? [200, await host.plain.job(id)]
      : [200, host.attempt(parse(AttemptQuery, { ...query, job_id: id }))];
  }
}

/** A scheduler's attempt: status 409 says that it was not taken. */
async function task(host: BridgeHost, kind: string, body: Record<string, unknown>): Promise<Reply> {
  const { attempt: order, ...payload } = body;
  const attempt = parse(AttemptFields, order);
  const answer = await host.begin({ kind, payload, attempt });
  const { job_id, number, boot } = attempt;
  const isRefused = answer.outcome === "refused";
  const said: AttemptAnswer = {
    job_id,
    status: isRefused ? "refused" : "running",
    repeated: answer.outcome === "duplicate",
    attempt: { number, boot },
    reason: isRefused ? answer.reason : undefined,
  };
  return [isRefused ? 409 : 200, said];
}

/** A task of anybody else, for the bridge's own queue. */
async function plain(
  host: BridgeHost,
  kind: string,
  req: IncomingMessage,
  body: Record<string, unknown>,
): Promise<Reply> {
  if (!isPlainKind(kind))
    throw new AppError("INVALID_INPUT", {
      reason: "attempt: missing; this route is for a scheduler",
      issues: [{ path: "attempt", message: "missing" }],
    });
  const header = req.headers["idempotency-key"];
  const key = typeof header === "string" ? parse(IdempotencyKey, header) : undefined;
  return [200, await host.plain.submit(kind, parse(schemaOf(kind), body), key)];
}

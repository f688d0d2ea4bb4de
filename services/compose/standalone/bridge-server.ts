import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "moleculer";
import type { z } from "zod";
import type { Config } from "../../../lib/config.ts";
import { AppError } from "../../../lib/errors.ts";
import { describeIssues } from "../../../lib/issues.ts";
import { failure, sendJson } from "../../gateway/answer.ts";
import { EdgeServer } from "../../gateway/edge-server.ts";
import { readBody } from "../../gateway/request-body.ts";
import { sameText } from "../../storage/signed-link.ts";
import type { BridgeHost } from "./bridge-host.ts";
import {
  type AttemptAnswer,
  AttemptFields,
  AttemptQuery,
  BridgeAnswer,
  CancelAttempt,
  routeOfKind,
} from "./bridge-wire.ts";

const kindOfRoute = new Map(Object.entries(routeOfKind).map(([kind, path]) => [path, kind]));

interface Exchange {
  req: IncomingMessage;
  path: string;
  query: Record<string, string>;
}
interface Reply {
  status?: number;
  body: unknown;
}

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
      const path = url.pathname.replace(/(?<=.)\/+$/, "");
      if (path !== "/healthz") this.#admit(req);
      const query = Object.fromEntries(url.searchParams);
      const { status = 200, body } = await this.#route({ req, path, query });
      sendJson(req, res, status, body);
    } catch (error) {
      failure("plain", req, res, error, this.#log);
    }
  }

  #admit(req: IncomingMessage): void {
    const given = /^Bearer +(\S+)$/i.exec(req.headers.authorization ?? "")?.[1];
    if (given === undefined)
      throw new AppError("UNAUTHENTICATED", { reason: "send Authorization: Bearer BRIDGE_TOKEN" });
    if (!sameText(given, this.#token))
      throw new AppError("UNAUTHENTICATED", { reason: "the token is not that of this bridge" });
  }

  async #route({ req, path, query }: Exchange): Promise<Reply> {
    const host = this.#host;
    if (!host) throw new AppError("UNAVAILABLE", { reason: "the bridge is starting" });
    const kind = kindOfRoute.get(path);
    const job = /^\/jobs\/([^/]+)(\/cancel)?$/.exec(path);
    const wanted = kind || path === "/answers" || job?.[2] ? "POST" : "GET";
    const isKnown = kind || job || ["/answers", "/status", "/healthz"].includes(path);
    if (!isKnown) throw new AppError("ROUTE_NOT_FOUND", { method: req.method, path });
    if (req.method !== wanted)
      throw new AppError("METHOD_NOT_ALLOWED", { method: req.method, path, allowed: [wanted] });
    if (path === "/healthz") return { body: { status: "ok" } };
    if (path === "/status") return { body: await host.status() };
    if (path === "/answers") {
      host.answer(parse(BridgeAnswer, await readBody(req, { multipart: false })));
      return { body: {} };
    }
    if (kind) return this.#task(host, kind, await readBody(req, { multipart: false }));
    const jobId = job?.[1];
    if (job?.[2]) {
      const body = await readBody(req, { multipart: false });
      return { body: host.cancel(parse(CancelAttempt, { ...body, job_id: jobId })) };
    }
    return { body: host.attempt(parse(AttemptQuery, { ...query, job_id: jobId })) };
  }

  async #task(host: BridgeHost, kind: string, body: Record<string, unknown>): Promise<Reply> {
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
    return { status: isRefused ? 409 : 200, body: said };
  }
}

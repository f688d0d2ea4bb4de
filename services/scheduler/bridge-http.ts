import { Agent, request } from "undici";
import type { z } from "zod";
import { AppError, asAppError } from "../../lib/errors.ts";
import {
  AttemptAnswer,
  type AttemptOrder,
  AttemptView,
  BridgeStatus,
  installationHeader,
  routeOfKind,
  type StatusQuery,
} from "../compose/standalone/bridge-wire.ts";
import { type BridgeCalls, outcomeOf } from "./bridge-link.ts";
import { type BridgeLimits, bridgeLimits } from "./config.ts";

interface Reply {
  status: number;
  body: unknown;
}

/** Reads a body whole, up to the limit: whoever runs the bridge need not be a friend. */
async function readJson(body: AsyncIterable<Uint8Array>, bytesMax: number): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > bytesMax) throw new Error(`its answer is longer than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    return undefined;
  }
}

/** What the bridge itself says of a refusal, in the form of its errors. */
const messageOf = ({ status, body }: Reply): string => {
  const { error } = (body ?? {}) as { error?: { message?: unknown } };
  const said = typeof error?.message === "string" ? `: ${error.message.slice(0, 500)}` : "";
  return `it answers with status ${status}${said}`;
};

const unusable = (reason: string) => new AppError("UNAVAILABLE", { reason });

/** Requests to one bridge. No redirects are followed: the token is for this address alone. */
export class BridgeHttp implements BridgeCalls {
  readonly #base: string;
  readonly #token: string;
  readonly #installation: string;
  readonly #limits: BridgeLimits;
  readonly #agent: Agent;
  readonly #closing = new AbortController();

  /** @param installation names the one that this scheduler works for. */
  constructor(
    base: string,
    { token, installation }: { token: string; installation: string },
    limits: BridgeLimits = bridgeLimits,
  ) {
    this.#installation = installation;
    this.#base = base.replace(/\/+$/, "");
    this.#token = token;
    this.#limits = limits;
    this.#agent = new Agent({ connections: 32, connect: { timeout: limits.callMs } });
  }

  /** Ends what is under way. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("the scheduler stops"));
    await this.#agent.destroy();
  }

  async status({ asked, wait_ms: waitMs }: StatusQuery): Promise<BridgeStatus> {
    const query = asked === undefined ? "" : `?asked=${asked}&wait_ms=${waitMs}`;
    const timeoutMs = this.#limits.callMs + waitMs;
    const reply = await this.#send("GET", `/status${query}`, undefined, timeoutMs);
    if (reply.status === 401 || reply.status === 403)
      throw unusable("it refuses our token; set BRIDGE_TOKEN to the one that it was started with");
    const parsed = reply.status === 200 ? BridgeStatus.safeParse(reply.body) : undefined;
    if (parsed?.success) return parsed.data;
    if (reply.status >= 500 || reply.status === 409 || reply.status === 429)
      throw unusable(messageOf(reply));
    throw unusable(
      `something answers there, but no bridge of this version that keeps leases (GET /status: ${reply.status}); nothing is sent to it. Start one with npm run bridge`,
    );
  }

  async begin(order: AttemptOrder): ReturnType<BridgeCalls["begin"]> {
    const { kind, payload, attempt } = order;
    const route = routeOfKind[kind];
    if (!route) return { outcome: "refused", reason: `no route of a bridge takes ${kind}` };
    const reply = await this.#send("POST", route, { ...payload, attempt }, this.#limits.orderMs);
    const parsed = AttemptAnswer.safeParse(reply.body);
    if (parsed.success) return outcomeOf(order, parsed.data);
    if (reply.status >= 400 && reply.status < 500)
      return { outcome: "refused", reason: messageOf(reply) };
    throw unusable(messageOf(reply));
  }

  attempt(query: Parameters<BridgeCalls["attempt"]>[0]) {
    const { job_id: jobId, ...rest } = query;
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(rest))
      if (value !== undefined) search.set(name, String(value));
    return this.#ask(AttemptView, "GET", `/jobs/${jobId}?${search}`);
  }

  answer(answer: Parameters<BridgeCalls["answer"]>[0]): Promise<unknown> {
    return this.#ask(undefined, "POST", "/answers", answer);
  }

  cancel({ job_id: jobId, ...ref }: Parameters<BridgeCalls["cancel"]>[0]): Promise<unknown> {
    return this.#ask(undefined, "POST", `/jobs/${jobId}/cancel`, ref);
  }

  async #ask<T>(
    schema: z.ZodType<T> | undefined,
    method: "GET" | "POST",
    path: string,
    body?: unknown,
  ): Promise<T> {
    const reply = await this.#send(method, path, body);
    if (reply.status !== 200) throw unusable(messageOf(reply));
    if (!schema) return undefined as T;
    const parsed = schema.safeParse(reply.body);
    if (!parsed.success) throw unusable("its answer is not understood");
    return parsed.data;
  }

  async #send(
    method: "GET" | "POST",
    path: string,
    body?: unknown,
    timeoutMs = this.#limits.callMs,
  ): Promise<Reply> {
    try {
      const response = await request(this.#base + path, {
        method,
        dispatcher: this.#agent,
        signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#closing.signal]),
        headers: {
          authorization: `Bearer ${this.#token}`,
          "accept-language": "en",
          [installationHeader]: this.#installation,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        body: body === undefined ? null : JSON.stringify(body),
      });
      const json = await readJson(response.body, this.#limits.answerBytesMax);
      return { status: response.statusCode, body: json };
    } catch (error) {
      if (asAppError(error)) throw error;
      throw unusable(`no answer (${(error as Error).message})`);
    }
  }
}

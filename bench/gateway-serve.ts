// One contestant of the gateway benchmark in a process of its own, driven over IPC.
import { subscribe } from "node:diagnostics_channel";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Fastify from "fastify";
import { type BrokerOptions, ServiceBroker, type ServiceSchema } from "moleculer";
import ApiGateway from "moleculer-web";
import { brokerOptions } from "../lib/broker-options.ts";
import { type Config, loadConfig } from "../lib/config.ts";
import { authService } from "../services/auth/auth.service.ts";
import { catalogue } from "../services/catalogue.ts";
import { contracts } from "../services/contracts.ts";
import { startNode } from "../services/node.ts";
import { benchService, itemOf } from "./gateway-contract.ts";

export const contestantNames = [
  "reelmesh",
  "reelmesh, metrics and traces off",
  "plain moleculer-web",
  "moleculer-web, Moleculer's metrics",
  "moleculer-web, Moleculer's traces",
  "Fastify",
] as const;
export type ContestantName = (typeof contestantNames)[number];

interface Serving {
  port: number;
  stop(): Promise<unknown>;
}

const enveloped = (data: unknown) => ({
  timestamp: Math.floor(Date.now() / 1000),
  returnCode: 0,
  message: "成功",
  responseData: data,
});
const bearer = (header: string | undefined) => /^Bearer +(\S+)/i.exec(header ?? "")?.[1] ?? "";

async function product(config: Config): Promise<Serving> {
  (contracts as unknown as unknown[]).push(benchService.contract);
  (catalogue.platform as unknown as unknown[]).push(benchService);
  const node = await startNode(config, { broker: { cacher: "Memory" } });
  return { port: node.address?.port ?? 0, stop: node.stop };
}

/** moleculer-web as its documentation sets it up: the same actions, the same check of the token, the same answers. */
async function moleculerWeb(config: Config, extra: Partial<BrokerOptions>): Promise<Serving> {
  const broker = new ServiceBroker(
    brokerOptions(config, { cacher: "Memory", middlewares: [], ...extra }),
  );
  broker.createService(authService.schema({ config }));
  broker.createService(benchService.schema({ config }));
  const wrap = {
    onAfterCall: (...args: unknown[]) => enveloped(args[4]),
    mappingPolicy: "restrict",
  };
  const service = broker.createService({
    name: "api",
    mixins: [ApiGateway as unknown as ServiceSchema],
    settings: {
      port: 0,
      ip: "127.0.0.1",
      logRequest: null,
      logResponse: null,
      logRouteRegistration: null,
      routes: [
        {
          ...wrap,
          path: "/bench/guarded",
          authentication: true,
          aliases: { "GET /:id": "bench.item.guarded" },
        },
        {
          ...wrap,
          path: "/bench",
          bodyParsers: { json: true },
          aliases: { "GET /items/:id": "bench.item.open", "POST /items": "bench.item.create" },
        },
      ],
    } as ServiceSchema["settings"],
    methods: {
      async authenticate(
        ctx: { call(name: string, params: object): Promise<unknown> },
        _route: unknown,
        req: { headers: Record<string, string | undefined> },
      ) {
        const actor = await ctx.call("auth.verify", {
          token: bearer(req.headers["authorization"]),
        });
        if (!actor) throw new Error("not signed in");
        return actor;
      },
    } as never,
  });
  await broker.start();
  const { server } = service as unknown as { server: { address(): AddressInfo } };
  return { port: server.address().port, stop: () => broker.stop() };
}

/** No broker at all: what the machine can do at most with this answer. */
async function fastify(config: Config): Promise<Serving> {
  const app = Fastify();
  const checked = async (req: { headers: { authorization?: string } }) => {
    if (bearer(req.headers.authorization) !== config.MCP_TOKEN) throw new Error("not signed in");
  };
  type ById = { Params: { id: string } };
  app.get<ById>("/bench/items/:id", async (req) => enveloped(itemOf(req.params.id)));
  app.get<ById>("/bench/guarded/:id", { preHandler: checked }, async (req) =>
    enveloped(itemOf(req.params.id)),
  );
  app.post("/bench/items", async (req) => enveloped(itemOf("new", req.body as object)));
  await app.listen({ port: 0, host: "127.0.0.1" });
  return { port: (app.server.address() as AddressInfo).port, stop: () => app.close() };
}

function serve(name: ContestantName, config: Config): Promise<Serving> {
  switch (name) {
    case "reelmesh":
    case "reelmesh, metrics and traces off":
      return product(config);
    case "plain moleculer-web":
      return moleculerWeb(config, {});
    case "moleculer-web, Moleculer's metrics":
      return moleculerWeb(config, {
        metrics: { enabled: true, reporter: [{ type: "Prometheus", options: { port: 0 } }] },
      });
    case "moleculer-web, Moleculer's traces":
      return moleculerWeb(config, { tracing: { enabled: true, exporter: [{ type: "Event" }] } });
    case "Fastify":
      return fastify(config);
    default:
      throw new Error(`no contestant ${name satisfies never}`);
  }
}

const SLICE_MS = 150;
/** A slice with fewer requests says little. */
const SLICE_REQUESTS_MIN = 200;

/**
 * Processor time of this thread for one request, slice by slice: of a machine that others use too, the quiet slices tell
 * what the work itself costs.
 */
function sliceMeter() {
  let requests = 0;
  subscribe("http.server.request.start", () => {
    requests += 1;
  });
  let slices: number[] = [];
  let used = process.threadCpuUsage();
  let counted = 0;
  setInterval(() => {
    const { user, system } = process.threadCpuUsage(used);
    const done = requests - counted;
    used = process.threadCpuUsage();
    counted = requests;
    if (done >= SLICE_REQUESTS_MIN) slices.push((user + system) / done);
  }, SLICE_MS).unref();
  return {
    mark: () => {
      slices = [];
    },
    /** The quiet slices: one in ten undercuts this. */
    cpuUs: () => slices.sort((a, b) => a - b)[Math.floor(slices.length * 0.1)] ?? Number.NaN,
  };
}

/** Nothing is served where this file is only read for its names. */
const asked = process.env["BENCH_CONTESTANT"] as ContestantName | undefined;
if (asked) {
  const own = await mkdtemp(join(tmpdir(), "reelmesh-bench-"));
  const withTelemetry = asked === "reelmesh";
  const { config } = loadConfig({
    PORT: "0",
    DATA_DIR: own,
    SERVICES: "gateway,platform",
    MCP_TOKEN: process.env["BENCH_TOKEN"],
    METRICS: withTelemetry ? "on" : "off",
    OTEL_EXPORTER_OTLP_ENDPOINT: withTelemetry ? process.env["BENCH_SINK"] : undefined,
    // Counted, but never reached.
    RATE_LIMIT_PER_MINUTE: "10000000",
  });
  const serving = await serve(asked, config);
  const meter = sliceMeter();
  process.on("message", async (message: "mark" | "read" | "stop") => {
    if (message === "mark") meter.mark();
    if (message === "mark" || message === "read") {
      process.send?.({ cpuUs: meter.cpuUs() });
      return;
    }
    await serving.stop();
    await rm(own, { recursive: true, force: true });
    process.exit(0);
  });
  process.send?.({ port: serving.port });
}

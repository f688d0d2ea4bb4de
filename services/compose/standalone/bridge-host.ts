import type { Logger } from "moleculer";
import type { Config } from "../../../lib/config.ts";
import { AppError, asAppError } from "../../../lib/errors.ts";
import { readFetchAllow } from "../../../lib/net/address.policy.ts";
import type { ReportKeeper } from "../../health/report-keeper.ts";
import type { StartOrder } from "../../scheduler/job.types.ts";
import { newJobId } from "../../scheduler/job-id.ts";
import type { AttemptHost } from "../attempt-host.ts";
import { AttemptWatch } from "../attempt-watch.ts";
import { executionLimits, nodeLimits, standaloneLimits } from "../config.ts";
import { executors } from "../executors.ts";
import { keyText } from "../held-attempt.ts";
import { LoadMeter } from "../load-report.ts";
import type { LogLine } from "../log-batch.ts";
import type { BeginAnswer } from "../node-agent.ts";
import { linkAccess } from "../object-access.ts";
import { AttemptDesk } from "./attempt-desk.ts";
import { bridgeName } from "./bridge-log.ts";
import { BridgeMeter } from "./bridge-meter.ts";
import { BridgeNode } from "./bridge-node.ts";
import { bridgeReadiness } from "./bridge-readiness.ts";
import {
  type AttemptOrder,
  type AttemptQuery,
  type BridgeAnswer,
  type BridgeStatus,
  type CancelAttempt,
  routeOfKind,
  type StatusQuery,
} from "./bridge-wire.ts";
import { isLoopback } from "./loopback.policy.ts";
import { PlainJobs } from "./plain-jobs.ts";
import { SchedulerBinding } from "./scheduler-binding.ts";

/** What came with an order beside its task. */
interface Supplies {
  bucket: string;
  inputs: ReadonlyMap<string, string>;
}

/**
 * The work of a bridge outside the mesh: attempts for a scheduler that asks for them, and its own plain queue, which
 * share its slots.
 */
export class BridgeHost {
  readonly boot = newJobId(Date.now(), Math.random);
  readonly #config: Config;
  readonly #log: Logger;
  readonly #desk: AttemptDesk;
  readonly #meter = new LoadMeter(executionLimits);
  readonly #supplies = new Map<string, Supplies>();
  readonly #kinds = Object.keys(executors).filter((kind) => kind in routeOfKind);
  readonly #binding: SchedulerBinding;
  readonly #numbers: BridgeMeter;
  readonly #watch: AttemptWatch;
  /** By the clock that never jumps. */
  #polledAt: number | undefined;
  /** What this bridge depends on, with the state of each. */
  readonly readiness: ReportKeeper;
  #opened: { node: BridgeNode; plain: PlainJobs } | undefined;

  private constructor(config: Config, log: Logger, binding: SchedulerBinding) {
    this.#config = config;
    this.#binding = binding;
    this.#log = log;
    this.#desk = new AttemptDesk(this.boot, () => performance.now());
    this.#numbers = new BridgeMeter(config, () => this.#use());
    this.#watch = new AttemptWatch({ config, logger: log }, bridgeName(config));
    this.readiness = bridgeReadiness({
      config,
      lookAtObjects: () => this.plain.objects.look(),
      isBound: () => binding.isBound,
      lastPollMs: () => this.#lastPollMs,
    });
  }

  get config(): Config {
    return this.#config;
  }

  get #lastPollMs(): number | undefined {
    return this.#polledAt === undefined ? undefined : performance.now() - this.#polledAt;
  }

  #use() {
    const { node, plain } = this.#parts;
    const total = this.#config.RENDER_SLOTS;
    const slots = { total, scheduler: this.#desk.taken(node.agent), plain: plain.taken };
    return { slots, questions: this.#desk.questions, lastPollMs: this.#lastPollMs };
  }

  /** Resolves when what an earlier run left running is dead. */
  static async open(config: Config, log: Logger, baseUrl: string): Promise<BridgeHost> {
    const host = new BridgeHost(config, log, await SchedulerBinding.open(config.DATA_DIR));
    const { boot } = host;
    const watching = { watch: host.#watch, meter: host.#numbers };
    const node = await BridgeNode.open({
      config,
      log,
      boot,
      kinds: host.#kinds,
      limits: { ...nodeLimits, heartbeatMs: standaloneLimits.leaseLookMs },
      folder: "compose",
      scheduler: host.#desk.ports,
      attemptHost: (order) => host.#attemptHost(order),
      ended: (order) => host.#supplies.delete(keyText(order)),
      ...watching,
    });
    const slots = () => config.RENDER_SLOTS - host.#desk.taken(node.agent);
    try {
      const plain = await PlainJobs.open({ config, log, boot, baseUrl, slots, ...watching });
      host.#opened = { node, plain };
      return host;
    } catch (error) {
      await node.stop(0);
      throw error;
    }
  }

  get #parts(): { node: BridgeNode; plain: PlainJobs } {
    if (!this.#opened) throw new AppError("UNAVAILABLE", { reason: "the bridge is starting" });
    return this.#opened;
  }

  get plain(): PlainJobs {
    return this.#parts.plain;
  }

  /** @throws AppError CONFLICT while work of another installation is held. */
  admit(installation: string): Promise<void> {
    const { node } = this.#parts;
    return this.#binding.admit(installation, () => this.#desk.isFree(node.agent));
  }

  /** May wait for news, so that their way to the scheduler does not take a whole pause. */
  async status({ asked, wait_ms: waitMs }: StatusQuery): Promise<BridgeStatus> {
    this.#polledAt = performance.now();
    if (asked !== undefined && waitMs > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, waitMs);
      const end = this.#desk.listen(asked, resolve);
      await promise;
      clearTimeout(timer);
      end();
    }
    const load = await this.#meter.read();
    const { node, plain } = this.#parts;
    const slots = Math.max(0, this.#config.RENDER_SLOTS - plain.taken);
    return this.#desk.status(node.agent, { ...load, kinds: this.#kinds, slots });
  }

  async begin({ kind, payload, attempt }: AttemptOrder): Promise<BeginAnswer> {
    const { node, plain } = this.#parts;
    const { job_id: jobId, number, lease_ms: leaseMs, boot, owner, trace } = attempt;
    const order: StartOrder = {
      jobId,
      attempt: number,
      kind,
      payload,
      owner,
      leaseMs,
      boot,
      trace,
    };
    const key = keyText(order);
    const isHeld = node.agent.probe().attempts.some((held) => held.jobId === jobId);
    const taken = plain.taken > 0 ? plain.taken + this.#desk.taken(node.agent) : 0;
    if (!isHeld && taken >= this.#config.RENDER_SLOTS)
      return { outcome: "refused", reason: "no free slot" };
    const isNew = !this.#supplies.has(key);
    const inputs = new Map(
      attempt.inputs.map((input) => [`${input.bucket}/${input.key}`, input.url]),
    );
    if (isNew) this.#supplies.set(key, { bucket: attempt.bucket, inputs });
    const answer = await this.#desk.begin(node.agent, order);
    if (isNew && answer.outcome !== "accepted") this.#supplies.delete(key);
    return answer;
  }

  attempt(query: AttemptQuery) {
    return this.#desk.attempt(this.#parts.node.agent, query);
  }

  answer(answer: BridgeAnswer): void {
    this.#desk.answer(answer);
  }

  cancel(ref: CancelAttempt): { held: boolean } {
    return this.#desk.cancel(this.#parts.node.agent, ref);
  }

  /** Running work is stopped and handed back, or noted for the next start. The server must still answer meanwhile. */
  async stop(): Promise<void> {
    const { node, plain } = this.#parts;
    await Promise.all([plain.stop(), node.stop(standaloneLimits.handBackMsMax)]);
  }

  #attemptHost(order: StartOrder): AttemptHost {
    const { bucket, inputs } = this.#supplies.get(keyText(order)) ?? noSupplies;
    const access = linkAccess(
      {
        async readLink({ bucket, key }) {
          const url = inputs.get(`${bucket}/${key}`);
          if (url === undefined) throw new AppError("OBJECT_NOT_FOUND", { bucket, key });
          return url;
        },
        uploadLink: ({ key, bytes, md5 }) =>
          this.#desk.uploadLink(order, { name: key.split("/").at(-1) as string, bytes, md5 }),
        // Whoever may send orders from elsewhere must not look around in this machine's network by them.
        allow: isLoopback(this.#config.HOST) ? undefined : readFetchAllow(this.#config.FETCH_ALLOW),
      },
      executionLimits,
    );
    let logged: Promise<unknown> = Promise.resolve();
    const addLog = (lines: LogLine[]) => {
      // The desk keeps one batch of an attempt at a time.
      logged = logged.catch(() => undefined).then(() => this.#desk.addLog(order, lines));
      return logged;
    };
    let isTold = false;
    const explain = (error: unknown): never => {
      const known = explained(error);
      // It is tried again for a while; who waits for the job should not have to wait for the reason too.
      if (known && !isTold)
        addLog([{ at: Date.now(), level: "warn", text: known.message }]).catch(() => undefined);
      isTold ||= known !== undefined;
      throw known ?? error;
    };
    return {
      config: this.#config,
      logger: this.#log,
      // Links to the product's gateway were turned into objects by the scheduler, which knows its addresses.
      addresses: () => Promise.resolve({ bucket, origins: [] }),
      objects: () => ({
        read: (from, signal) => access.read(from, signal).catch(explain),
        write: (file, object, signal) => access.write(file, object, signal).catch(explain),
      }),
      addLog: (_order, lines) => addLog(lines),
    };
  }
}

const noSupplies: Supplies = { bucket: "", inputs: new Map() };

/** A bridge sees the product's storage by the addresses in its links alone: where these are wrong, it says so. */
function explained(error: unknown): AppError | undefined {
  const known = asAppError(error);
  if (known?.type === "ADDRESS_FORBIDDEN")
    return new AppError("ADDRESS_FORBIDDEN", {
      ...known.data,
      reason: `${known.data["reason"]} of the bridge, if the product's storage is there`,
    });
  if (known?.type !== "UNAVAILABLE") return undefined;
  const reason = `${known.data["reason"]}. The bridge reaches the product's storage by the product's links alone: PUBLIC_URL of the product (or its S3_ENDPOINT) must be an address that the bridge reaches`;
  return new AppError("UNAVAILABLE", { reason }, error);
}

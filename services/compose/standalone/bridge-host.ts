import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "moleculer";
import type { Config } from "../../../lib/config.ts";
import { AppError, asAppError } from "../../../lib/errors.ts";
import type { StartOrder } from "../../scheduler/job.types.ts";
import { newJobId } from "../../scheduler/job-id.ts";
import type { AttemptHost } from "../attempt-host.ts";
import { executionLimits, nodeLimits, standaloneLimits } from "../config.ts";
import { runAttempt } from "../execution.ts";
import { outputPrefix, workDirOf } from "../executor-tools.ts";
import { executors } from "../executors.ts";
import { keyText } from "../held-attempt.ts";
import { LoadMeter } from "../load-report.ts";
import type { LogLine } from "../log-batch.ts";
import { type BeginAnswer, NodeAgent } from "../node-agent.ts";
import { FileJournal } from "../node-journal.ts";
import type { AttemptKey, NodePorts } from "../node-ports.ts";
import { linkAccess } from "../object-access.ts";
import { killLeftovers } from "../process-group.ts";
import { AttemptDesk } from "./attempt-desk.ts";
import {
  type AttemptOrder,
  type AttemptQuery,
  type BridgeAnswer,
  type BridgeStatus,
  type CancelAttempt,
  routeOfKind,
} from "./bridge-wire.ts";

type Log = Pick<Logger, "info" | "warn" | "error">;

const timerMsMax = 60_000;

/** What came with an order beside its task. */
interface Supplies {
  bucket: string;
  inputs: ReadonlyMap<string, string>;
}

/** The compose node of a bridge outside the mesh: journal, processes and disk of this machine, and no broker. */
export class BridgeHost {
  readonly boot = newJobId(Date.now(), Math.random);
  readonly #config: Config;
  readonly #log: Log;
  readonly #journal: FileJournal;
  readonly #agent: NodeAgent;
  readonly #desk: AttemptDesk;
  readonly #meter = new LoadMeter(executionLimits);
  readonly #supplies = new Map<string, Supplies>();
  /** Attempts of this run that have not begun to store anything: there is nothing to delete. */
  readonly #nothingStored = new Set<string>();
  readonly #kinds = Object.keys(executors).filter((kind) => kind in routeOfKind);
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  private constructor(config: Config, journal: FileJournal, log: Log) {
    this.#config = config;
    this.#journal = journal;
    this.#log = log;
    this.#desk = new AttemptDesk(this.boot, () => performance.now());
    const slots = config.RENDER_SLOTS;
    const identity = { node: "bridge", boot: this.boot, slots, kinds: this.#kinds };
    const limits = { ...nodeLimits, heartbeatMs: standaloneLimits.leaseLookMs };
    this.#agent = new NodeAgent(identity, this.#ports(), limits);
  }

  /** Resolves when what an earlier run left running is dead. */
  static async open(config: Config, log: Log): Promise<BridgeHost> {
    const directory = join(config.DATA_DIR, "compose");
    const journal = await FileJournal.open(directory, executionLimits.journalLinesMax);
    const host = new BridgeHost(config, journal, log);
    await host.#agent.recover();
    return host;
  }

  async status(): Promise<BridgeStatus> {
    const load = await this.#meter.read();
    const slots = this.#config.RENDER_SLOTS;
    return this.#desk.status(this.#agent, { ...load, kinds: this.#kinds, slots });
  }

  async begin({ kind, payload, attempt }: AttemptOrder): Promise<BeginAnswer> {
    const { job_id: jobId, number, lease_ms: leaseMs, boot, owner } = attempt;
    const order: StartOrder = { jobId, attempt: number, kind, payload, owner, leaseMs, boot };
    const key = keyText(order);
    const links = new Map(
      attempt.inputs.map((input) => [`${input.bucket}/${input.key}`, input.url]),
    );
    const isNew = !this.#supplies.has(key);
    if (isNew) this.#supplies.set(key, { bucket: attempt.bucket, inputs: links });
    const answer = await this.#desk.begin(this.#agent, order);
    if (isNew && answer.outcome !== "accepted") this.#supplies.delete(key);
    return answer;
  }

  attempt(query: AttemptQuery) {
    return this.#desk.attempt(this.#agent, query);
  }

  answer(answer: BridgeAnswer): void {
    this.#desk.answer(answer);
  }

  cancel(ref: CancelAttempt): { held: boolean } {
    return this.#desk.cancel(this.#agent, ref);
  }

  /** Running work is stopped and handed back, or noted for the next start. The server must still answer meanwhile. */
  async stop(): Promise<void> {
    const drained = this.#agent.drain(0);
    await within(executionLimits.stopMsMax, this.#agent.whenQuiet());
    await within(standaloneLimits.handBackMsMax, drained);
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#journal.close();
  }

  #ports(): NodePorts {
    const dataDir = this.#config.DATA_DIR;
    return {
      ...this.#desk.ports,
      nowMonotonic: () => performance.now(),
      journal: this.#journal,
      execute: this.#execute.bind(this),
      killOrphan: async (entry) => {
        await killLeftovers(entry.processes, this.#markOf(entry), executionLimits.killGraceMs);
        await rm(workDirOf(dataDir, entry), { recursive: true, force: true });
      },
      discardOutput: async (key) => {
        if (this.#nothingStored.delete(outputPrefix(key))) return;
        await this.#desk.ports.discardOutput(key);
      },
      log: (level, text) => this.#log[level](text),
      wakeAt: (at) => {
        clearTimeout(this.#timer);
        if (this.#stopped) return;
        const inMs = Math.min(timerMsMax, Math.max(0, at - performance.now()));
        this.#timer = setTimeout(() => this.#agent.tick(performance.now()), Math.ceil(inMs));
      },
    };
  }

  /** The mark of an attempt's processes; the same whichever run of the bridge looks for it. */
  #markOf({ jobId, attempt }: AttemptKey): string {
    return `${this.#config.DATA_DIR}:${jobId}:${attempt}`;
  }

  async #execute(
    order: StartOrder,
    signal: AbortSignal,
    report: (progress: number, stage?: string) => void,
  ) {
    const prefix = outputPrefix(order);
    const key = keyText(order);
    this.#nothingStored.add(prefix);
    const context = {
      host: this.#attemptHost(order),
      executors,
      journal: this.#journal,
      limits: executionLimits,
      mark: this.#markOf(order),
      uploading: () => this.#nothingStored.delete(prefix),
    };
    try {
      const outcome = await runAttempt(context, order, signal, report);
      if (outcome.ok) this.#nothingStored.delete(prefix);
      return outcome;
    } finally {
      this.#supplies.delete(key);
    }
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
  if (known?.type !== "UNAVAILABLE") return undefined;
  const reason = `${known.data["reason"]}. The bridge reaches the product's storage by the product's links alone: PUBLIC_URL of the product (or its S3_ENDPOINT) must be an address that the bridge reaches`;
  return new AppError("UNAVAILABLE", { reason }, error);
}

async function within(boundMs: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, boundMs);
  });
  await Promise.race([work, bound]);
  clearTimeout(timer);
}

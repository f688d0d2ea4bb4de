import { setTimeout as pause } from "node:timers/promises";
import type { JobView } from "../../services/scheduler/scheduler.contract.ts";
import { Random } from "../../test/simulation/random.ts";
import { Cluster, type ClusterSize } from "../cluster/cluster.ts";
import { canMakeHosts } from "../cluster/host-network.ts";
import {
  CommitWatch,
  checkObjects,
  leftDirectories,
  type ObjectFindings,
  orphanProcesses,
  readJobs,
} from "./chaos-check.ts";
import { type SubmitTally, submitJobs, uploadSource } from "./chaos-jobs.ts";
import { type FaultKind, faultKinds, type PlannedFault, planFaults } from "./chaos-plan.policy.ts";
import { FaultRig, Faults } from "./faults.ts";
import { ProductClient } from "./product-client.ts";

export interface ChaosOptions {
  seed: number;
  faults: number;
  jobs: number;
  /** Faults and jobs are spread over this time. */
  overMs: number;
  dir: string;
  size: ClusterSize;
  /** Only these kinds of fault; default: all that are possible here. */
  only?: readonly FaultKind[];
  log: (text: string) => void;
}

/** A fault as it was done. */
export interface FaultRecord {
  kind: FaultKind;
  target: string;
  atMs: number;
  forMs: number;
  /** Jobs that ran on the node which was hit. */
  running: number;
  /** Until each of them ran elsewhere or had ended, or until a leader answered again. */
  recoveredMs?: number;
}

export interface ChaosResult {
  options: Pick<ChaosOptions, "seed" | "faults" | "jobs" | "overMs" | "size">;
  faults: FaultRecord[];
  /** Faults that were drawn while nothing was free to be hit. */
  skipped: number;
  impossible: FaultKind[];
  tally: SubmitTally;
  requestRepeats: number;
  jobs: JobView[];
  /** Accepted jobs that nobody knows any more, or that had not ended at the end. */
  lost: string[];
  /** Jobs whose committed result changed, or whose key was accepted twice. */
  twice: string[];
  objects: ObjectFindings;
  orphanProcesses: string[];
  leftDirectories: string[];
  /** From the last repair until every job had ended. */
  settleMs: number;
  durationMs: number;
}

/** After the last repair jobs must go on ending: so long at most without one. */
const SETTLE_MS_MAX = 120_000;
const CLEAN_MS_MAX = 60_000;
const WATCH_MS = 1_000;
/** A fault whose targets are all hit already waits for one so long. */
const TARGET_MS_MAX = 30_000;
const RECOVER_MS_MAX = 90_000;

const running = "/admin/scheduler/jobs?state=running&limit=500";

/** Runs a cluster, submits jobs, does faults, repairs everything and looks at what came of it. */
export async function chaosRun(options: ChaosOptions): Promise<ChaosResult> {
  const { seed, dir, size, log } = options;
  const startedAt = performance.now();
  const rig = new FaultRig(dir);
  await rig.prepare();
  try {
    const cluster = await Cluster.start({
      dir,
      size,
      separateHosts: await canMakeHosts(),
      env: { RENDER_SLOTS: "2", LOG_LEVEL: "warn", RATE_LIMIT_PER_MINUTE: "0" },
      adapt: (plan) => rig.adapt(plan),
      log,
    });
    try {
      const run = new ChaosRun(cluster, rig, options);
      const result = await run.run();
      return { ...result, durationMs: performance.now() - startedAt };
    } finally {
      await cluster.stop();
      log(`seed ${seed}: stopped`);
    }
  } finally {
    await rig.close();
  }
}

class ChaosRun {
  readonly #cluster: Cluster;
  readonly #options: ChaosOptions;
  readonly #faults: Faults;
  readonly #watch = new CommitWatch();
  readonly #records: FaultRecord[] = [];
  #admin!: ProductClient;
  #skipped = 0;
  #over = false;

  constructor(cluster: Cluster, rig: FaultRig, options: ChaosOptions) {
    this.#cluster = cluster;
    this.#options = options;
    this.#faults = new Faults(cluster, rig, () => this.#leader());
  }

  async run(): Promise<Omit<ChaosResult, "durationMs">> {
    const { seed, faults, jobs, overMs, only, log } = this.#options;
    const { urls, env } = this.#cluster;
    this.#admin = await ProductClient.signIn(urls, env["ADMIN_PASSWORD"] as string);
    const agent = new ProductClient(urls, env["MCP_TOKEN"] as string);
    await uploadSource(agent);
    const asked = faultKinds.filter((kind) => !only || only.includes(kind));
    const possible = asked.filter((kind) => this.#faults.isPossible(kind));
    const plan = planFaults(new Random(`faults ${seed}`), { faults, overMs, possible });
    log(`${jobs} jobs and ${plan.length} faults in ${Math.round(overMs / 1000)} s, seed ${seed}`);
    const watching = this.#watchCommits();
    const [tally] = await Promise.all([
      submitJobs({
        admin: this.#admin,
        agent,
        random: new Random(`jobs ${seed}`),
        run: `chaos-${seed}`,
        jobs,
        overMs,
        heard: ({ accepted }) => {
          if (accepted.length % 100 === 0) log(`${accepted.length} jobs accepted`);
        },
      }),
      this.#doFaults(plan),
    ]);
    await this.#repair();
    const repairedAt = performance.now();
    const { ended, missing } = await this.#settle(tally);
    const settleMs = performance.now() - repairedAt;
    this.#over = true;
    await watching;
    for (const job of ended) this.#watch.note(job);
    const objects = await this.#whenClean(ended);
    return {
      options: this.#options,
      faults: this.#records,
      skipped: this.#skipped,
      impossible: asked.filter((kind) => !possible.includes(kind)),
      tally,
      requestRepeats: this.#admin.repeats + agent.repeats,
      jobs: ended,
      lost: [...missing, ...ended.filter(isOpen).map(({ id }) => id)],
      twice: [...tally.doubled, ...this.#watch.changed],
      objects,
      orphanProcesses: await orphanProcesses(this.#options.dir),
      leftDirectories: await leftDirectories(this.#cluster),
      settleMs,
    };
  }

  async #doFaults(plan: readonly PlannedFault[]): Promise<void> {
    const startedAt = performance.now();
    const open: Promise<void>[] = [];
    for (const fault of plan) {
      const early = startedAt + fault.atMs - performance.now();
      if (early > 0) await pause(early);
      open.push(this.#doFault(fault, performance.now() - startedAt));
    }
    await Promise.all(open);
  }

  async #doFault(fault: PlannedFault, atMs: number): Promise<void> {
    const { kind, forMs } = fault;
    const { log } = this.#options;
    try {
      let done = await this.#faults.apply(fault);
      const giveUpAt = performance.now() + TARGET_MS_MAX;
      while (!done && performance.now() < giveUpAt) {
        await pause(1_000);
        done = await this.#faults.apply(fault);
      }
      if (!done) {
        this.#skipped += 1;
        return;
      }
      log(`${(atMs / 1000).toFixed(0)} s: ${kind} ${done.target} for ${forMs} ms`);
      // What ran there is read right after the fault: the scheduler does not know of it yet.
      const { target } = done;
      const held = /-compose$/.test(kind)
        ? (await this.#running()).filter(({ node }) => node === target)
        : [];
      const record: FaultRecord = {
        kind,
        target,
        atMs: Math.round(atMs),
        forMs,
        running: held.length,
      };
      this.#records.push(record);
      const recovered = kind.endsWith("-leader")
        ? this.#newLeader(target)
        : held.length > 0
          ? this.#elsewhere(held)
          : undefined;
      await pause(forMs);
      await done.undo();
      record.recoveredMs = await recovered;
    } catch (error) {
      log(`${kind} could not be done: ${(error as Error).message}`);
      this.#skipped += 1;
    }
  }

  /** How long until none of these jobs is where it was. */
  async #elsewhere(held: readonly JobView[]): Promise<number | undefined> {
    const startedAt = performance.now();
    const attempts = new Map(held.map(({ id, attempt }) => [id, attempt]));
    while (performance.now() - startedAt < RECOVER_MS_MAX) {
      const still = (await this.#running()).filter(
        ({ id, attempt }) => attempts.get(id) === attempt,
      );
      if (still.length === 0) return Math.round(performance.now() - startedAt);
      await pause(250);
    }
    return undefined;
  }

  async #newLeader(old: string): Promise<number | undefined> {
    const startedAt = performance.now();
    while (performance.now() - startedAt < RECOVER_MS_MAX) {
      const leader = await this.#leader();
      if (leader !== undefined && leader !== old) return Math.round(performance.now() - startedAt);
      await pause(100);
    }
    return undefined;
  }

  async #leader(): Promise<string | undefined> {
    try {
      const answer = await this.#admin.send("GET", "/admin/scheduler/leader", undefined, {
        limitMs: 0,
        requestMs: 1_500,
      });
      return answer.responseData.holder || undefined;
    } catch {
      return undefined;
    }
  }

  async #running(): Promise<JobView[]> {
    const patience = { requestMs: 3_000 };
    return (await this.#admin.send("GET", running, undefined, patience)).responseData.jobs;
  }

  async #watchCommits(): Promise<void> {
    while (!this.#over) {
      try {
        const path = "/admin/scheduler/jobs?limit=500";
        const { jobs } = (
          await this.#admin.send("GET", path, undefined, {
            limitMs: 5_000,
          })
        ).responseData;
        for (const job of jobs as JobView[]) this.#watch.note(job);
      } catch {
        // The next look will do.
      }
      await pause(WATCH_MS);
    }
  }

  /** Everything that the faults have left broken is whole again. */
  async #repair(): Promise<void> {
    const { servers, processes, hosts } = this.#cluster;
    for (const name of servers.names) {
      const server = servers.get(name);
      if (!server.given) await server.start();
    }
    for (const host of hosts.values()) await host.heal();
    for (const process of processes) {
      process.signal("SIGCONT");
      await process.start();
    }
  }

  async #settle(tally: SubmitTally): Promise<{ ended: JobView[]; missing: string[] }> {
    let endAt = performance.now() + SETTLE_MS_MAX;
    let fewest = Number.POSITIVE_INFINITY;
    for (;;) {
      const { jobs, missing } = await readJobs(this.#admin, tally.accepted);
      const open = jobs.filter(isOpen).length;
      if (open < fewest) endAt = performance.now() + SETTLE_MS_MAX;
      fewest = Math.min(fewest, open);
      if (open === 0 || performance.now() > endAt) return { ended: jobs, missing };
      this.#options.log(`${open} jobs have not ended yet`);
      await pause(1_000);
    }
  }

  /** Losers' objects and processes are removed after the end of their jobs; that may take a little. */
  async #whenClean(jobs: readonly JobView[]): Promise<ObjectFindings> {
    const endAt = performance.now() + CLEAN_MS_MAX;
    for (;;) {
      const objects = await checkObjects(this.#cluster, jobs);
      const processes = await orphanProcesses(this.#options.dir);
      const left = await leftDirectories(this.#cluster);
      const open =
        objects.orphans.length + objects.unfinished.length + processes.length + left.length;
      if (open === 0 || performance.now() > endAt) return objects;
      await pause(1_000);
    }
  }
}

const isOpen = ({ state }: JobView) => state === "pending" || state === "running";

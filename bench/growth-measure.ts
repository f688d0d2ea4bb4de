import type { Job, JobState } from "../services/scheduler/job.types.ts";
import type { JobQuery, JobStore } from "../services/scheduler/job-store.ts";
import { round } from "./jobs-measure.ts";

const CREATED_AT = 1_700_000_000_000;
/** Jobs that wait or run at every size: what grows is the past. */
export const ACTIVE = 200;
const PAGE = 50;

/** Of a thousand ended jobs five failed and one was cancelled. */
const endOf = (n: number): JobState =>
  n % 1_000 < 5 ? "failed" : n % 1_000 === 5 ? "cancelled" : "success";

function pendingJob(n: number): Job {
  return {
    spec: {
      id: `01890000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`,
      kind: n % 10 === 0 ? "compose" : "timeline",
      queue: `queue-${n % 4}`,
      owner: `member:${n % 10_000}`,
      payload: { tracks: Array.from({ length: 4 }, (_, at) => ({ at, source: `in/${n}.mp4` })) },
      priority: 50,
      createdAt: CREATED_AT + n,
      dueAt: CREATED_AT + n,
      idempotencyKey: n % 2 === 0 ? `key-${n}` : undefined,
      attemptsMax: 3,
      backoffMs: 2_000,
      backoffMsMax: 60_000,
      timeoutMs: 3_600_000,
      stallMs: 600_000,
      requires: {},
    },
    history: { attempt: 0, errors: 0, nodesLost: 0, progress: 0, version: 1 },
    state: "pending",
    readyAt: CREATED_AT + n,
  };
}

const next = ({ spec, history }: Job) => ({
  spec,
  history: { ...history, version: history.version + 1 },
});

function endedJob(job: Job, state: JobState): Job {
  const core = next(job);
  const endedAt = job.spec.createdAt + 60_000;
  if (state === "failed")
    return { ...core, state, endedAt, error: { type: "INTERNAL", message: "no such file" } };
  if (state === "cancelled") return { ...core, state, endedAt, reason: "by its owner" };
  const bucket = "media";
  const key = `jobs/${job.spec.id}/1/output.mp4`;
  const output = { bucket, key, bytes: 1e6, contentType: "video/mp4", role: "media" };
  return {
    ...core,
    state: "success",
    endedAt,
    result: { hash: "0f", outputs: [output], info: {} },
  };
}

const claimedJob = (job: Job): Job => ({
  ...next({ ...job, history: { ...job.history, attempt: 1 } }),
  state: "running",
  node: "gpu-1",
  boot: "b1",
  leaseUntil: CREATED_AT,
  attemptAt: CREATED_AT,
  accepted: false,
});

/** The store under measurement, led by this process. */
export class GrowingStore {
  readonly store: JobStore;
  readonly #term: number;
  /** Jobs that it holds; the next one's number. */
  jobs: number;
  /** Mark of the job half way back. */
  half: string | undefined;

  private constructor(store: JobStore, term: number, jobs: number) {
    this.store = store;
    this.#term = term;
    this.jobs = jobs;
  }

  static async lead(store: JobStore, jobs = 0): Promise<GrowingStore> {
    const led = await store.takeOver(await store.leadership(), "bench");
    if (!led) throw new Error("somebody else leads this store");
    return new GrowingStore(store, led.term, jobs);
  }

  insert(job: Job) {
    return this.#change(job, 0);
  }

  update(job: Job) {
    return this.#change(job, job.history.version - 1);
  }

  pending = (): Job => {
    this.jobs += 1;
    return pendingJob(this.jobs);
  };

  /** Adds jobs up to this number, through the store's own way: first those that wait, then ended ones. */
  async growTo(size: number): Promise<void> {
    await this.#fill(size / 2);
    this.half = (await this.store.list({ limit: 1 })).next;
    await this.#fill(size);
  }

  async #fill(size: number, clients = 2_000): Promise<void> {
    const client = async () => {
      while (this.jobs < size) {
        const job = this.pending();
        const past = { ...job, history: { ...job.history, version: 0 } };
        await this.insert(this.jobs <= ACTIVE ? job : endedJob(past, endOf(this.jobs)));
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  async #change(job: Job, expectedVersion: number): Promise<Job> {
    const line = { at: CREATED_AT, attempt: 1, level: "info" as const, text: "goes to gpu-1" };
    const log = job.state === "running" ? [line] : [];
    const change = { next: job, term: this.#term, expectedVersion, log };
    const result = await this.store.change(change);
    if (!result.stored) throw new Error(`job ${job.spec.id} was refused`);
    return job;
  }
}

/** Milliseconds of one of these, asked one after another: a quarter of them was faster, whatever else the machine did. */
async function each<T>(items: readonly T[], run: (item: T) => Promise<unknown>): Promise<number> {
  const costs: number[] = [];
  for (const item of items) {
    const from = performance.now();
    await run(item);
    costs.push(performance.now() - from);
  }
  costs.sort((a, b) => a - b);
  return round(costs[costs.length >> 2] ?? Number.NaN, 2);
}

/** How many of these are done a second when a group is asked at once; the best of the groups. */
async function together<T>(
  groups: readonly (readonly T[])[],
  run: (item: T) => Promise<unknown>,
): Promise<number> {
  let best = 0;
  for (const group of groups) {
    const from = performance.now();
    await Promise.all(group.map(run));
    best = Math.max(best, group.length / ((performance.now() - from) / 1_000));
  }
  return round(best);
}

const many = <T>(count: number, make: (n: number) => T) =>
  Array.from({ length: count }, (_, n) => make(n));

/** One line of the report; what ends in `PerS` is a throughput, the rest are milliseconds. */
export type Costs = Record<(typeof costNames)[number], number>;
export const costNames = [
  "submitMs",
  "claimMs",
  "endMs",
  "submitPerS",
  "claimPerS",
  "endPerS",
  "getMs",
  "byKeyMs",
  "pageMs",
  "pageOfStateMs",
  "pageOfRareStateMs",
  "pageOfOwnerMs",
  "pageFarBackMs",
  "countsMs",
  "activeMs",
  "openMs",
  "takeOverMs",
] as const;

const SINGLES = 60;
const GROUP = 1_000;

async function writeCosts(growing: GrowingStore) {
  const insert = (job: Job) => growing.insert(job);
  const update = (job: Job) => growing.update(job);
  const end = (job: Job) => endedJob(claimedJob(job), "success");
  const singles = many(SINGLES, growing.pending);
  const groups = many(3, () => many(GROUP, growing.pending));
  return {
    submitMs: await each(singles, insert),
    claimMs: await each(singles.map(claimedJob), update),
    endMs: await each(singles.map(end), update),
    submitPerS: await together(groups, insert),
    claimPerS: await together(
      groups.map((group) => group.map(claimedJob)),
      update,
    ),
    endPerS: await together(
      groups.map((group) => group.map(end)),
      update,
    ),
  };
}

async function readCosts({ store, half }: GrowingStore) {
  const list = (query: Partial<JobQuery>) =>
    each(
      many(SINGLES, () => query),
      (one) => store.list({ limit: PAGE, ...one }),
    );
  const old = many(SINGLES, (n) => pendingJob(2 + 2 * n).spec);
  const drain = async () => {
    let found = 0;
    for await (const _ of store.active()) found += 1;
    if (found !== ACTIVE) throw new Error(`${found} active jobs instead of ${ACTIVE}`);
  };
  return {
    getMs: await each(old, ({ id }) => store.get(id)),
    byKeyMs: await each(old, ({ owner, idempotencyKey }) =>
      store.findByIdempotencyKey(owner, idempotencyKey!),
    ),
    pageMs: await list({}),
    pageOfStateMs: await list({ state: "success" }),
    pageOfRareStateMs: await list({ state: "failed" }),
    pageOfOwnerMs: await list({ owner: "member:7" }),
    pageFarBackMs: await list({ state: "success", after: half }),
    countsMs: await each(many(SINGLES, String), () => store.counts()),
    activeMs: await each(many(5, String), drain),
  };
}

/** Costs at the size that the store has; leaves as many active jobs as there were. */
export async function costsOf(
  growing: GrowingStore,
  reopen: () => Promise<JobStore>,
): Promise<{ costs: Costs; growing: GrowingStore }> {
  const written = await writeCosts(growing);
  const read = await readCosts(growing);
  const opening = performance.now();
  const store = await reopen();
  const openMs = round(performance.now() - opening, 2);
  const taking = performance.now();
  const led = await GrowingStore.lead(store, growing.jobs);
  const takeOverMs = round(performance.now() - taking, 2);
  return { costs: { ...written, ...read, openMs, takeOverMs }, growing: led };
}

import { open } from "node:fs/promises";
import { join } from "node:path";

export interface Load {
  /** Jobs of the throughput part. */
  jobs: number;
  /** Single jobs of the latency part. */
  singles: number;
  /** Jobs that the worker runs at the same time. */
  slots: number;
  /** Submissions under way at the same time. */
  clients: number;
}

/** One job queue with its no-op worker, ready to be measured. */
export interface Started {
  /** Resolves when the job is accepted as durably as its contestant promises. */
  submit(): Promise<unknown>;
  /** Is called by the worker with the time at which its function was entered; absent where nobody here can see that. */
  onStart?(listener: (at: number, id?: string) => void): void;
  /** Is called when a job has ended and that is stored. */
  onEnd(listener: () => void): void;
  stop(): Promise<void>;
}

export interface Contestant {
  name: string;
  durability: string;
  /** A sentence instead says why it cannot take part here. */
  start(dataDir: string, load: Load): Promise<Started | string>;
}

export interface Measured {
  acceptedPerS: number;
  completedPerS: number;
  startP50Ms: number;
  startP99Ms: number;
}

export const round = (value: number, digits = 0): number => Number(value.toFixed(digits));
export const median = (values: readonly number[]): number => quantile(values, 0.5);

function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

const LIMIT_MS = 120_000;

/** Rejects instead of waiting for ever for a job that does not come. */
function within<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${LIMIT_MS} ms`)), LIMIT_MS);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

/** Milliseconds from the call of submit to the worker's function, one job after another on an idle queue. */
async function startLatencies(queue: Started, count: number): Promise<number[]> {
  let started = Promise.withResolvers<number>();
  let ended = Promise.withResolvers<void>();
  queue.onStart?.((at) => started.resolve(at));
  queue.onEnd(() => ended.resolve());
  const latencies: number[] = [];
  for (let n = 0; n < count; n++) {
    started = Promise.withResolvers();
    ended = Promise.withResolvers();
    const from = performance.now();
    await queue.submit();
    latencies.push((await within(started.promise, "start")) - from);
    await within(ended.promise, "end");
  }
  return latencies;
}

async function throughput(queue: Started, { jobs, clients }: Load) {
  let ended = 0;
  const all = Promise.withResolvers<void>();
  queue.onStart?.(() => {});
  queue.onEnd(() => {
    ended += 1;
    if (ended === jobs) all.resolve();
  });
  const from = performance.now();
  let submitted = 0;
  const client = async () => {
    while (submitted < jobs) {
      submitted += 1;
      await queue.submit();
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  const acceptedMs = performance.now() - from;
  // One that does not come to an end is told by what it did in that time.
  await within(all.promise, "completion").catch(() => {});
  const completedMs = performance.now() - from;
  return {
    acceptedPerS: round((jobs / acceptedMs) * 1_000),
    completedPerS: round((ended / completedMs) * 1_000),
  };
}

/** Jobs of the first seconds compile the code; they are not counted. */
const WARM_JOBS = 50;

export async function measure(queue: Started, load: Load): Promise<Measured> {
  if (!queue.onStart) {
    await throughput(queue, { ...load, jobs: 8 * WARM_JOBS });
    return {
      ...(await throughput(queue, load)),
      startP50Ms: Number.NaN,
      startP99Ms: Number.NaN,
    };
  }
  await startLatencies(queue, WARM_JOBS);
  const latencies = await startLatencies(queue, load.singles);
  return {
    ...(await throughput(queue, load)),
    startP50Ms: round(quantile(latencies, 0.5), 2),
    startP99Ms: round(quantile(latencies, 0.99), 2),
  };
}

/**
 * Milliseconds from the call of submit to the worker's function while jobs come at an even pace. Both sides name the
 * job, since several are on their way at once.
 */
export async function pacedLatencies(
  queue: Started,
  { perS, seconds }: { perS: number; seconds: number },
): Promise<{ p50Ms: number; p99Ms: number; maxMs: number }> {
  const count = perS * seconds;
  const [sentAt, startedAt] = [new Map<string, number>(), new Map<string, number>()];
  const all = Promise.withResolvers<void>();
  queue.onStart?.((at, id) => {
    if (id !== undefined) startedAt.set(id, at);
    if (startedAt.size >= count) all.resolve();
  });
  queue.onEnd(() => {});
  const from = performance.now();
  const open: Promise<void>[] = [];
  for (let n = 0; n < count; n++) {
    const early = from + (n * 1_000) / perS - performance.now();
    if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
    const at = performance.now();
    open.push(queue.submit().then((job) => void sentAt.set((job as { id: string }).id, at)));
  }
  await Promise.all(open);
  await within(all.promise, "start of paced jobs");
  const latencies = [...sentAt].map(([id, at]) => (startedAt.get(id) ?? Number.NaN) - at);
  return {
    p50Ms: round(quantile(latencies, 0.5), 2),
    p99Ms: round(quantile(latencies, 0.99), 2),
    maxMs: round(Math.max(...latencies), 2),
  };
}

/** What one small write with fsync costs here: the floor under every durable commit. */
export async function fsyncMs(directory: string): Promise<number> {
  const file = await open(join(directory, "fsync"), "w");
  const costs: number[] = [];
  for (let n = 0; n < 200; n++) {
    const from = performance.now();
    await file.write(Buffer.alloc(4_096, n), 0, 4_096, n * 4_096);
    await file.sync();
    costs.push(performance.now() - from);
  }
  await file.close();
  return round(median(costs), 2);
}

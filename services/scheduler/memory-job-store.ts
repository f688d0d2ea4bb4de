import { logLinesMax } from "./config.ts";
import { type Job, type JobState, jobStates } from "./job.types.ts";
import type {
  ChangeResult,
  JobChange,
  JobLogLine,
  JobQuery,
  JobStore,
  Leadership,
  OutboxEntry,
} from "./job-store.ts";

type StoredLine = JobLogLine & { seq: number };

/** Which lines of a log are kept once its newest line has the number `newest`; the same rule in every store. */
export const keepsLine = (line: Pick<StoredLine, "seq" | "level">, newest: number): boolean =>
  line.seq > newest - (line.level === "info" ? logLinesMax : 2 * logLinesMax);

const byKey = (owner: string, key: string) => `${owner}\0${key}`;

/**
 * Job store in memory: for the simulation and for tests, where "on disk" means "survives the scheduler that was
 * dropped". Jobs are values that nobody changes in place, so they are kept as they are.
 */
export class MemoryJobStore implements JobStore {
  /** In order of arrival; a job keeps its place. */
  readonly #jobs: Job[] = [];
  readonly #places = new Map<string, number>();
  readonly #keys = new Map<string, string>();
  readonly #logs = new Map<string, { newest: number; lines: StoredLine[] }>();
  readonly #outbox = new Map<string, OutboxEntry>();
  readonly #paused = new Set<string>();
  readonly #counts: Record<string, Record<JobState, number>> = {};
  /** Term of each job's last writer. */
  readonly #terms = new Map<string, number>();
  readonly #fencesInserts: boolean;
  #leadership: Leadership = { term: 0, holder: "", beat: 0 };

  /** `fencesInserts: false`: like a store without transactions, it still takes a new or retried job of an earlier term. */
  constructor({ fencesInserts = true }: { fencesInserts?: boolean } = {}) {
    this.#fencesInserts = fencesInserts;
  }

  async change({ next, term, expectedVersion, log, outbox }: JobChange): Promise<ChangeResult> {
    const { id, owner, idempotencyKey } = next.spec;
    const place = this.#places.get(id);
    const current = place === undefined ? undefined : this.#jobs[place];
    const latest = this.#fencesInserts ? this.#leadership.term : (this.#terms.get(id) ?? 0);
    if (term < latest) return { stored: false, deposed: true };
    if ((current?.history.version ?? 0) !== expectedVersion) return { stored: false, current };
    if (current && place !== undefined) {
      this.#count(current, -1);
      this.#jobs[place] = next;
    } else {
      if (idempotencyKey !== undefined) {
        const earlier = this.#keys.get(byKey(owner, idempotencyKey));
        if (earlier !== undefined) return { stored: false, current: await this.get(earlier) };
        this.#keys.set(byKey(owner, idempotencyKey), id);
      }
      this.#places.set(id, this.#jobs.length);
      this.#jobs.push(next);
    }
    this.#terms.set(id, term);
    this.#count(next, 1);
    if (log) this.#append(id, log);
    for (const entry of outbox ?? []) this.#outbox.set(entry.id, entry);
    return { stored: true };
  }

  async get(id: string): Promise<Job | undefined> {
    const place = this.#places.get(id);
    return place === undefined ? undefined : this.#jobs[place];
  }

  async findByIdempotencyKey(owner: string, key: string): Promise<Job | undefined> {
    const id = this.#keys.get(byKey(owner, key));
    return id === undefined ? undefined : this.get(id);
  }

  async list({ state, kind, queue, owner, after, limit }: JobQuery) {
    const jobs: Job[] = [];
    let place = after === undefined ? this.#jobs.length - 1 : Number.parseInt(after, 36) - 2;
    for (; place >= 0 && jobs.length < limit; place--) {
      const job = this.#jobs[place]!;
      const { spec } = job;
      if (state !== undefined && job.state !== state) continue;
      if (kind !== undefined && spec.kind !== kind) continue;
      if (queue !== undefined && spec.queue !== queue) continue;
      if (owner !== undefined && spec.owner !== owner) continue;
      jobs.push(job);
    }
    return { jobs, next: jobs.length === limit ? (place + 2).toString(36) : undefined };
  }

  async counts(): Promise<Record<string, Record<JobState, number>>> {
    return structuredClone(this.#counts);
  }

  async *active(): AsyncIterable<Job> {
    for (const job of [...this.#jobs])
      if (job.state === "pending" || job.state === "running") yield job;
  }

  async leadership(): Promise<Leadership> {
    return this.#leadership;
  }

  async takeOver(seen: Leadership, holder: string): Promise<Leadership | undefined> {
    const { term, beat } = this.#leadership;
    if (term !== seen.term || beat !== seen.beat) return undefined;
    this.#leadership = { term: term + 1, holder, beat: 0 };
    for (const { spec, state } of this.#jobs)
      if (state === "pending" || state === "running") this.#terms.set(spec.id, term + 1);
    return this.#leadership;
  }

  async renew(term: number): Promise<boolean> {
    if (term !== this.#leadership.term) return false;
    this.#leadership = { ...this.#leadership, beat: this.#leadership.beat + 1 };
    return true;
  }

  async resign(term: number): Promise<void> {
    if (term === this.#leadership.term) this.#leadership = { ...this.#leadership, holder: "" };
  }

  async strays(term: number): Promise<Job[]> {
    const strays: Job[] = [];
    for await (const job of this.active()) {
      if ((this.#terms.get(job.spec.id) ?? 0) >= term) continue;
      this.#terms.set(job.spec.id, term);
      strays.push(job);
    }
    return strays;
  }

  async appendLog(jobId: string, lines: JobLogLine[]): Promise<void> {
    if (this.#places.has(jobId)) this.#append(jobId, lines);
  }

  async readLog(jobId: string, { after = 0, limit }: { after?: number; limit: number }) {
    const lines = this.#logs.get(jobId)?.lines ?? [];
    return { lines: lines.filter(({ seq }) => seq > after).slice(0, limit) };
  }

  async outboxPending(limit: number): Promise<OutboxEntry[]> {
    return [...this.#outbox.values()].slice(0, limit);
  }

  async outboxDone(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#outbox.delete(id);
  }

  async setQueuePaused(queue: string, paused: boolean): Promise<void> {
    if (paused) this.#paused.add(queue);
    else this.#paused.delete(queue);
  }

  async pausedQueues(): Promise<string[]> {
    return [...this.#paused].sort();
  }

  async close(): Promise<void> {}

  #count(job: Job, by: number): void {
    const { queue } = job.spec;
    this.#counts[queue] ??= Object.fromEntries(jobStates.map((state) => [state, 0])) as Record<
      JobState,
      number
    >;
    this.#counts[queue][job.state] += by;
  }

  #append(jobId: string, lines: JobLogLine[]): void {
    const log = this.#logs.get(jobId) ?? { newest: 0, lines: [] };
    for (const { at, attempt, level, text } of lines)
      log.lines.push({ at, attempt, level, text, seq: ++log.newest });
    if (log.lines.length > logLinesMax)
      log.lines = log.lines.filter((line) => keepsLine(line, log.newest));
    this.#logs.set(jobId, log);
  }
}

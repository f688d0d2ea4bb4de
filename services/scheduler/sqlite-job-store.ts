import {
  acquireDatabase,
  type Database,
  releaseDatabase,
  type Statement,
} from "../../lib/sqlite/database.ts";
import { logLinesMax } from "./config.ts";
import { type Job, type JobSpec, type JobState, jobStates } from "./job.types.ts";
import type {
  ChangeResult,
  JobChange,
  JobLogLine,
  JobQuery,
  JobStore,
  Leadership,
  OutboxEntry,
} from "./job-store.ts";
import { keepsLine } from "./memory-job-store.ts";
import type { MovingJob } from "./moving-job.ts";

// The parts of a job that change are apart from its specification: a renewal must not rewrite a long timeline.
// `tally` is kept by triggers, in the same commit, so that counting costs the same for ten jobs and ten million.
const SCHEMA = [
  `CREATE TABLE IF NOT EXISTS jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
    state TEXT NOT NULL, kind TEXT NOT NULL, queue TEXT NOT NULL, owner TEXT NOT NULL,
    idempotency_key TEXT, life TEXT NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS job_specs (seq INTEGER PRIMARY KEY, spec TEXT NOT NULL)`,
  `CREATE UNIQUE INDEX IF NOT EXISTS jobs_key ON jobs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL`,
  `CREATE INDEX IF NOT EXISTS jobs_state ON jobs (state)`,
  `CREATE INDEX IF NOT EXISTS jobs_kind ON jobs (kind)`,
  `CREATE INDEX IF NOT EXISTS jobs_queue ON jobs (queue)`,
  `CREATE INDEX IF NOT EXISTS jobs_owner ON jobs (owner)`,
  `CREATE TABLE IF NOT EXISTS job_logs (
    job_id TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, attempt INTEGER NOT NULL,
    level TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (job_id, seq)) WITHOUT ROWID`,
  `CREATE TABLE IF NOT EXISTS outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, job_id TEXT NOT NULL,
    action TEXT NOT NULL, params TEXT NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS paused_queues (queue TEXT PRIMARY KEY) WITHOUT ROWID`,
  `CREATE TABLE IF NOT EXISTS leadership (
    id INTEGER PRIMARY KEY CHECK (id = 1), term INTEGER NOT NULL, holder TEXT NOT NULL, beat INTEGER NOT NULL)`,
  `INSERT INTO leadership VALUES (1, 0, '', 0) ON CONFLICT DO NOTHING`,
  `CREATE TABLE IF NOT EXISTS tally (
    queue TEXT NOT NULL, state TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (queue, state)) WITHOUT ROWID`,
  `CREATE TRIGGER IF NOT EXISTS jobs_added AFTER INSERT ON jobs BEGIN
    INSERT INTO tally VALUES (new.queue, new.state, 1) ON CONFLICT DO UPDATE SET n = n + 1; END`,
  `CREATE TRIGGER IF NOT EXISTS jobs_moved AFTER UPDATE OF state ON jobs WHEN old.state <> new.state BEGIN
    UPDATE tally SET n = n - 1 WHERE queue = old.queue AND state = old.state;
    INSERT INTO tally VALUES (new.queue, new.state, 1) ON CONFLICT DO UPDATE SET n = n + 1; END`,
];

const SELECT = "SELECT j.seq, j.life, s.spec FROM jobs j JOIN job_specs s USING (seq)";
// Each change looks at the term in the statement that changes the job, so a later leader's take-over and an earlier
// one's write cannot pass each other.
const IN_OFFICE = "(SELECT term FROM leadership) <= ?";
const INSERT_JOB = `INSERT INTO jobs (id, version, state, kind, queue, owner, idempotency_key, life)
  SELECT ?, ?, ?, ?, ?, ?, ?, ? WHERE ${IN_OFFICE} ON CONFLICT DO NOTHING`;
const INSERT_SPEC = "INSERT INTO job_specs VALUES (last_insert_rowid(), ?)";
const UPDATE_JOB = `UPDATE jobs SET version = ?, state = ?, life = ?
  WHERE id = ? AND version = ? AND ${IN_OFFICE}`;
const INSERT_LOG = `INSERT INTO job_logs
  SELECT ?1, coalesce((SELECT max(seq) FROM job_logs WHERE job_id = ?1), 0) + 1, ?2, ?3, ?4, ?5
  WHERE EXISTS (SELECT 1 FROM jobs WHERE id = ?1)`;
const TRIM_LOG = `DELETE FROM job_logs WHERE job_id = ?1 AND seq <=
  (SELECT max(seq) FROM job_logs WHERE job_id = ?1) - iif(level = 'info', ${logLinesMax}, ${2 * logLinesMax})`;

const SELECT_LOG = "SELECT seq, at, attempt, level, text FROM job_logs";
const SELECT_OUTBOX = "SELECT id, job_id, action, params FROM outbox";

const TRIM_EACH_ATTEMPTS = 50;

interface JobRow {
  seq: number;
  life: string;
  spec: string;
}

interface OutboxRow {
  id: string;
  job_id: string;
  action: string;
  params: string;
}

const entryOf = (row: OutboxRow): OutboxEntry => ({
  id: row.id,
  jobId: row.job_id,
  action: row.action,
  params: JSON.parse(row.params),
});

const fromRow = (row: JobRow): Job =>
  ({ spec: JSON.parse(row.spec) as JobSpec, ...JSON.parse(row.life) }) as Job;

function lifeOf({ spec: _, ...life }: Job): string {
  return JSON.stringify(life);
}

/** Job store in one SQLite file; a change is fsynced, together with whatever else waited, before its promise resolves. */
export class SqliteJobStore implements JobStore {
  readonly #db: Database;
  readonly #release: () => Promise<void>;
  readonly exclusive: boolean;

  private constructor(db: Database, exclusive: boolean, release: () => Promise<void>) {
    this.#db = db;
    this.exclusive = exclusive;
    this.#release = release;
  }

  /** `exclusive`: the lock of the data directory keeps every other process out. */
  static async open(path: string, { exclusive = false } = {}): Promise<SqliteJobStore> {
    const db = await acquireDatabase(path);
    await db.write(SCHEMA.map((sql) => ({ sql })));
    return new SqliteJobStore(db, exclusive, () => releaseDatabase(path));
  }

  async change(change: JobChange): Promise<ChangeResult> {
    const { next, term, expectedVersion, log = [], outbox = [] } = change;
    const { spec, history } = next;
    const statements: Statement[] =
      expectedVersion === 0
        ? [
            {
              sql: INSERT_JOB,
              params: [
                spec.id,
                history.version,
                next.state,
                spec.kind,
                spec.queue,
                spec.owner,
                spec.idempotencyKey ?? null,
                lifeOf(next),
                term,
              ],
              mustChange: 1,
            },
            { sql: INSERT_SPEC, params: [JSON.stringify(spec)] },
          ]
        : [this.#update(change)];
    statements.push(...logLines(spec.id, log));
    // A job writes a line or two an attempt: looking for lines to drop each time would cost more than it saves.
    if (history.attempt % TRIM_EACH_ATTEMPTS === TRIM_EACH_ATTEMPTS - 1)
      statements.push(trimLog(spec.id));
    for (const entry of outbox)
      statements.push({
        sql: "INSERT INTO outbox (id, job_id, action, params) VALUES (?, ?, ?, ?)",
        params: [entry.id, entry.jobId, entry.action, JSON.stringify(entry.params)],
      });
    const { ok } = await this.#db.write(statements);
    if (ok) return { stored: true };
    if (term < (await this.leadership()).term) return { stored: false, deposed: true };
    const earlier =
      expectedVersion === 0 && spec.idempotencyKey !== undefined
        ? await this.findByIdempotencyKey(spec.owner, spec.idempotencyKey)
        : undefined;
    return { stored: false, current: earlier ?? (await this.get(spec.id)) };
  }

  async get(id: string): Promise<Job | undefined> {
    const row = this.#db.get<JobRow>(`${SELECT} WHERE j.id = ?`, [id]);
    return row && fromRow(row);
  }

  async findByIdempotencyKey(owner: string, key: string): Promise<Job | undefined> {
    const row = this.#db.get<JobRow>(`${SELECT} WHERE j.owner = ? AND j.idempotency_key = ?`, [
      owner,
      key,
    ]);
    return row && fromRow(row);
  }

  async list({ after, limit, ...filters }: JobQuery): Promise<{ jobs: Job[]; next?: string }> {
    const given = Object.entries(filters).filter(([, value]) => value !== undefined);
    const where = given.map(([field]) => `j.${field} = ?`);
    const params: (string | number)[] = given.map(([, value]) => value);
    if (after !== undefined) {
      where.push("j.seq < ?");
      params.push(Number.parseInt(after, 36));
    }
    const rows = this.#db.all<JobRow>(
      `${SELECT} ${where.length > 0 ? `WHERE ${where.join(" AND ")}` : ""} ORDER BY j.seq DESC LIMIT ?`,
      [...params, limit],
    );
    return {
      jobs: rows.map(fromRow),
      next: rows.length === limit ? rows.at(-1)!.seq.toString(36) : undefined,
    };
  }

  async counts(): Promise<Record<string, Record<JobState, number>>> {
    const counts: Record<string, Record<JobState, number>> = {};
    for (const { queue, state, n } of this.#db.all<{ queue: string; state: JobState; n: number }>(
      "SELECT queue, state, n FROM tally",
    )) {
      counts[queue] ??= Object.fromEntries(jobStates.map((name) => [name, 0])) as Record<
        JobState,
        number
      >;
      counts[queue][state] = n;
    }
    return counts;
  }

  async *active(): AsyncIterable<Job> {
    for (const state of ["running", "pending"])
      for (const row of this.#db.iterate<JobRow>(`${SELECT} WHERE j.state = ? ORDER BY j.seq`, [
        state,
      ]))
        yield fromRow(row);
  }

  async leadership(): Promise<Leadership> {
    const { term, holder, beat } = this.#db.get<{ term: number; holder: string; beat: number }>(
      "SELECT term, holder, beat FROM leadership",
    )!;
    return { term, holder, beat };
  }

  async takeOver(seen: Leadership, holder: string): Promise<Leadership | undefined> {
    const taken = await this.#lead(
      "UPDATE leadership SET term = term + 1, holder = ?, beat = 0 WHERE term = ? AND beat = ?",
      [holder, seen.term, seen.beat],
    );
    return taken ? { term: seen.term + 1, holder, beat: 0 } : undefined;
  }

  renew(term: number): Promise<boolean> {
    return this.#lead("UPDATE leadership SET beat = beat + 1 WHERE term = ?", [term]);
  }

  async resign(term: number): Promise<void> {
    await this.#lead("UPDATE leadership SET holder = '' WHERE term = ?", [term]);
  }

  async strays(): Promise<Job[]> {
    return [];
  }

  async #lead(sql: string, params: (string | number)[]): Promise<boolean> {
    return (await this.#db.write([{ sql, params, mustChange: 1 }])).ok;
  }

  async appendLog(jobId: string, lines: JobLogLine[]): Promise<void> {
    if (lines.length > 0) await this.#db.write([...logLines(jobId, lines), trimLog(jobId)]);
  }

  async readLog(jobId: string, { after = 0, limit }: { after?: number; limit: number }) {
    const lines = this.#db.all<JobLogLine & { seq: number }>(
      `${SELECT_LOG} WHERE job_id = ? AND seq > ? ORDER BY seq LIMIT ?`,
      [jobId, after, limit],
    );
    return { lines: lines.map((line) => ({ ...line })) };
  }

  async outboxPending(limit: number): Promise<OutboxEntry[]> {
    return this.#db.all<OutboxRow>(`${SELECT_OUTBOX} ORDER BY seq LIMIT ?`, [limit]).map(entryOf);
  }

  async outboxDone(ids: readonly string[]): Promise<void> {
    await this.#db.write(
      ids.map((id) => ({ sql: "DELETE FROM outbox WHERE id = ?", params: [id] })),
    );
  }

  async setQueuePaused(queue: string, paused: boolean): Promise<void> {
    await this.#db.write([
      {
        sql: paused
          ? "INSERT INTO paused_queues VALUES (?) ON CONFLICT DO NOTHING"
          : "DELETE FROM paused_queues WHERE queue = ?",
        params: [queue],
      },
    ]);
  }

  async pausedQueues(): Promise<string[]> {
    return this.#db
      .all<{ queue: string }>("SELECT queue FROM paused_queues ORDER BY queue")
      .map(({ queue }) => queue);
  }

  /** All jobs in the order of their arrival, with all that belongs to them, `batchMax` at a time. */
  async *moving(batchMax: number): AsyncIterable<MovingJob[]> {
    let after = 0;
    while (true) {
      const rows = this.#db.all<JobRow>(`${SELECT} WHERE j.seq > ? ORDER BY j.seq LIMIT ?`, [
        after,
        batchMax,
      ]);
      if (rows.length === 0) return;
      after = rows.at(-1)!.seq;
      const jobs = rows.map(fromRow);
      const ids = JSON.stringify(jobs.map(({ spec }) => spec.id));
      const entries = this.#db
        .all<OutboxRow>(
          `${SELECT_OUTBOX} WHERE job_id IN (SELECT value FROM json_each(?)) ORDER BY seq`,
          [ids],
        )
        .map(entryOf);
      yield jobs.map((job, n) => ({
        job,
        place: rows[n]!.seq,
        log: this.#keptLog(job.spec.id),
        outbox: entries.filter(({ jobId }) => jobId === job.spec.id),
      }));
    }
  }

  close(): Promise<void> {
    return this.#release();
  }

  #keptLog(jobId: string): (JobLogLine & { seq: number })[] {
    const lines = this.#db.all<JobLogLine & { seq: number }>(
      `${SELECT_LOG} WHERE job_id = ? ORDER BY seq`,
      [jobId],
    );
    const newest = lines.at(-1)?.seq ?? 0;
    return lines.filter((line) => keepsLine(line, newest)).map((line) => ({ ...line }));
  }

  #update({ next, term, expectedVersion }: JobChange): Statement {
    const { spec, history } = next;
    return {
      sql: UPDATE_JOB,
      params: [history.version, next.state, lifeOf(next), spec.id, expectedVersion, term],
      mustChange: 1,
    };
  }
}

const logLines = (jobId: string, lines: readonly JobLogLine[]): Statement[] =>
  lines.map(({ at, attempt, level, text }) => ({
    sql: INSERT_LOG,
    params: [jobId, at, attempt, level, text],
  }));
const trimLog = (jobId: string): Statement => ({ sql: TRIM_LOG, params: [jobId] });

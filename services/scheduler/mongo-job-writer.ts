import { randomBytes } from "node:crypto";
import { AppError } from "../../lib/errors.ts";
import type { MongoJobLimits } from "./config.ts";
import { GroupCommit, type Outcome } from "./group-commit.ts";
import { isEnded } from "./job.step.ts";
import type { Job } from "./job.types.ts";
import type { ChangeResult, JobChange } from "./job-store.ts";
import { bulkErrors, failureOf, isDuplicate, type OperationError } from "./mongo-bulk.ts";
import { lifeOf, newDocument, updateOf, type Write } from "./mongo-job-document.ts";
import type { JobDocument, JobModels, SpecDocument } from "./mongo-job-models.ts";
import type { Ordinals, WriteOrdinals } from "./mongo-job-ordinals.ts";

export interface WriterPorts {
  models: JobModels;
  places: Ordinals;
  numbers: WriteOrdinals;
  limits: MongoJobLimits;
  /** The jobs of these documents. */
  read(docs: readonly JobDocument[]): Promise<Job[]>;
}

/**
 * Writes changes of jobs in groups. A bulk answers only how many of its updates found their document; where some did
 * not, the marks in the documents tell which. Measured against single commands in `bench/reports/growth.md`.
 */
export class MongoJobWriter {
  readonly #models: JobModels;
  readonly #limits: MongoJobLimits;
  readonly #places: Ordinals;
  readonly #numbers: WriteOrdinals;
  readonly #read: WriterPorts["read"];
  readonly #inserts: GroupCommit<Write, ChangeResult>;
  readonly #updates: GroupCommit<Write, ChangeResult>;
  readonly #specs: GroupCommit<SpecDocument, boolean>;
  /** Different for each store and process. */
  readonly #name = randomBytes(6).toString("base64url");
  #writes = 0;

  constructor({ models, places, numbers, limits, read }: WriterPorts) {
    this.#limits = limits;
    this.#models = models;
    this.#places = places;
    this.#numbers = numbers;
    this.#read = read;
    const { groupMax, groupsUnderWayMax: underWayMax } = limits;
    const keyOf = ({ change }: Write) => change.next.spec.id;
    this.#inserts = new GroupCommit({
      write: (writes) => this.#insert(writes),
      keyOf,
      groupMax,
      underWayMax,
    });
    this.#updates = new GroupCommit({
      write: (writes) => this.#update(writes),
      keyOf,
      groupMax,
      underWayMax,
    });
    this.#specs = new GroupCommit({
      write: (specs) => this.#insertSpecs(specs),
      keyOf: ({ _id }) => _id,
      groupMax: limits.specGroupMax,
      underWayMax,
    });
  }

  /** @throws AppError PAYLOAD_TOO_LARGE */
  async write(change: JobChange): Promise<ChangeResult> {
    const life = this.#bounded(lifeOf(change.next));
    const isNew = change.expectedVersion === 0;
    const spec = isNew ? this.#bounded(JSON.stringify(change.next.spec)) : "";
    this.#writes += 1;
    const by = `${this.#name}${this.#writes.toString(36)}`;
    const place = isNew ? this.#places.take() : 0;
    const send = async (number: number) => {
      const write = { change, life, place, number, by };
      return isNew
        ? this.#inserts.add(await this.#withSpec(write, spec))
        : this.#updates.add(write);
    };
    const isNumbered = isEnded(change.next.state) || (change.outbox ?? []).length > 0;
    return isNumbered ? this.#numbers.use(send) : send(0);
  }

  #bounded(text: string): string {
    const { jobCharsMax } = this.#limits;
    if (text.length > jobCharsMax)
      throw new AppError("PAYLOAD_TOO_LARGE", { limit: `${jobCharsMax} characters of JSON` });
    return text;
  }

  /**
   * A long specification goes to a collection of its own first: a job without its specification never exists. A crash
   * in between leaves a specification that nobody asks for.
   */
  async #withSpec(write: Write, spec: string): Promise<Write> {
    if (spec.length <= this.#limits.specInlineChars) return { ...write, spec };
    const putApart = await this.#specs.add({ _id: write.change.next.spec.id, spec });
    return { ...write, putApart };
  }

  async #insert(writes: readonly Write[]): Promise<Outcome<ChangeResult>[]> {
    const errors = await bulkErrors(() =>
      this.#models.jobs.collection.insertMany(writes.map(newDocument) as never[], {
        ordered: false,
      }),
    );
    if (errors.size === 0) return writes.map(() => ({ value: { stored: true } }));
    return this.#explainInserts(writes, errors);
  }

  /** Each: whether it is new. */
  async #insertSpecs(specs: readonly SpecDocument[]): Promise<Outcome<boolean>[]> {
    const errors = await bulkErrors(() =>
      this.#models.specs.collection.insertMany([...specs] as never[], { ordered: false }),
    );
    return specs.map((_, n) => {
      const error = errors.get(n);
      if (!error || isDuplicate(error)) return { value: !error };
      return { error: failureOf(error) };
    });
  }

  async #explainInserts(
    writes: readonly Write[],
    errors: ReadonlyMap<number, OperationError>,
  ): Promise<Outcome<ChangeResult>[]> {
    const refused = writes.filter((_, n) => errors.has(n) && isDuplicate(errors.get(n)!));
    const byId = await this.#byId(refused);
    const byKey = await this.#byKey(refused);
    return Promise.all(
      writes.map(async (write, n): Promise<Outcome<ChangeResult>> => {
        const error = errors.get(n);
        if (!error) return { value: { stored: true } };
        if (!isDuplicate(error)) return { error: failureOf(error) };
        const { id, owner, idempotencyKey } = write.change.next.spec;
        const sameId = byId.get(id);
        if (sameId?.doc.by === write.by) return { value: { stored: true } };
        const current =
          (idempotencyKey === undefined ? undefined : byKey.get(`${owner}\0${idempotencyKey}`)) ??
          sameId?.job;
        // Refused by a job that has gone since: sending again is safe.
        if (!current) return { error: new Error("refused as a duplicate of no job") };
        if (write.putApart) await this.#models.specs.deleteOne({ _id: id });
        return { value: { stored: false, current } };
      }),
    );
  }

  async #byKey(writes: readonly Write[]): Promise<Map<string, Job>> {
    const keys = writes.flatMap(({ change: { next } }) => {
      const { owner, idempotencyKey } = next.spec;
      return idempotencyKey === undefined ? [] : [{ owner, idempotencyKey }];
    });
    if (keys.length === 0) return new Map();
    const found: JobDocument[] = [];
    for (const [owner, own] of Map.groupBy(keys, (key) => key.owner))
      found.push(
        ...(await this.#models.jobs
          .find({ owner, idempotencyKey: { $in: own.map((key) => key.idempotencyKey) } })
          .lean<JobDocument[]>()),
      );
    const jobs = await this.#read(found);
    return new Map(jobs.map((job) => [`${job.spec.owner}\0${job.spec.idempotencyKey}`, job]));
  }

  async #byId(writes: readonly Write[]): Promise<Map<string, { doc: JobDocument; job: Job }>> {
    if (writes.length === 0) return new Map();
    const docs = await this.#models.jobs
      .find({ _id: { $in: writes.map(({ change }) => change.next.spec.id) } })
      .lean<JobDocument[]>();
    const jobs = await this.#read(docs);
    return new Map(docs.map((doc, n) => [doc._id, { doc, job: jobs[n]! }]));
  }

  async #update(writes: readonly Write[]): Promise<Outcome<ChangeResult>[]> {
    let found = 0;
    const errors = await bulkErrors(async () => {
      const operations = writes.map((write) => ({ updateOne: updateOf(write) }));
      const { collection } = this.#models.jobs;
      const result = await collection.bulkWrite(operations as never[], { ordered: false });
      found = result.matchedCount;
    });
    if (errors.size === 0 && found === writes.length)
      return writes.map(() => ({ value: { stored: true } }));
    const stored = await this.#byId(writes);
    return Promise.all(
      writes.map(async (write, n): Promise<Outcome<ChangeResult>> => {
        const error = errors.get(n);
        const current = stored.get(write.change.next.spec.id);
        if (current?.doc.by === write.by) return { value: { stored: true } };
        if (error) return { error: failureOf(error) };
        const { ended, state } = current?.doc ?? {};
        const waits = current?.doc.version === write.change.expectedVersion;
        if (waits && ended !== undefined && state !== undefined)
          return write.number > 0
            ? this.#updateEnded(write, { ended, state })
            : this.#numbers.use((number) =>
                this.#updateEnded({ ...write, number }, { ended, state }),
              );
        return refusal(write, current);
      }),
    );
  }

  /** A retry, or a late word about a job that has ended: rare, and the tally must know what it was. */
  async #updateEnded(
    write: Write,
    before: { ended: number; state: Job["state"] },
  ): Promise<Outcome<ChangeResult>> {
    const { filter, update } = updateOf(write, before);
    const { matchedCount } = await this.#models.jobs.collection.updateOne(
      filter as never,
      update as never,
    );
    if (matchedCount === 1) return { value: { stored: true } };
    const current = (await this.#byId([write])).get(write.change.next.spec.id);
    if (current?.doc.by === write.by) return { value: { stored: true } };
    return refusal(write, current);
  }
}

/** Why an update found no document to change. */
function refusal(
  { change }: Write,
  current: { doc: JobDocument; job: Job } | undefined,
): Outcome<ChangeResult> {
  if (current && current.doc.term > change.term) return { value: { stored: false, deposed: true } };
  if (current?.doc.version === change.expectedVersion)
    return {
      error: new Error("the store did not take the change, for no reason that can be seen"),
    };
  return { value: { stored: false, current: current?.job } };
}

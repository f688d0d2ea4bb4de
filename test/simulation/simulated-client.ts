import { AppError, asAppError } from "../../lib/errors.ts";
import type { Checkers } from "./checkers.ts";
import type { Network, Party } from "./network.ts";
import type { Random } from "./random.ts";
import type { Operation } from "./scenario.ts";
import type { LeaderCalls, SimulatedScheduler } from "./simulated-scheduler.ts";
import type { World } from "./world.ts";

type Submit = Extract<Operation, { type: "submit" }>;

interface Known {
  /** Ids that were answered for this job; more than one is a broken promise. */
  ids: Set<string>;
}

/** Clients that repeat what was not answered, as the documents tell them to. */
export class SimulatedClient implements Party {
  readonly name = "client";
  readonly incarnation = 1;
  readonly isUp = true;
  readonly jobs = new Map<number, Known>();
  /** Operations that have not come to their end. */
  open = 0;
  readonly #world: World;
  readonly #network: Network;
  readonly #leader: () => SimulatedScheduler | undefined;
  readonly #checkers: Checkers;
  readonly #random: Random;

  constructor(
    world: World,
    network: Network,
    leader: () => SimulatedScheduler | undefined,
    checkers: Checkers,
  ) {
    this.#world = world;
    this.#network = network;
    this.#leader = leader;
    this.#checkers = checkers;
    this.#random = world.random("client");
  }

  perform(operation: Operation): void {
    switch (operation.type) {
      case "submit":
        for (let copy = 0; copy < operation.copies; copy += 1)
          this.#at(operation.atMs, () => this.#submit(operation));
        return;
      case "cancel":
        this.#at(operation.atMs, () => this.#cancel(operation.job));
        return;
      case "retry":
        this.#at(operation.atMs, () => this.#retry(operation.job));
        return;
      case "pause":
        this.#at(operation.atMs, () => this.#pause(operation.queue, operation.forMs));
        return;
      default:
        throw new Error(`not an operation: ${JSON.stringify(operation satisfies never)}`);
    }
  }

  /** Somebody makes sure that no queue stays paused. */
  resumeAll(queues: readonly string[]): void {
    for (const queue of queues)
      this.#at(this.#world.now, () =>
        this.#repeat(() => this.#call((leader) => leader.resume(queue), true)),
      );
  }

  #at(atMs: number, run: () => Promise<unknown>): void {
    this.open += 1;
    this.#world.after(atMs - this.#world.now, () => {
      void run().finally(() => {
        this.open -= 1;
      });
    });
  }

  async #call<T>(
    handle: (leader: LeaderCalls) => Promise<T>,
    idempotent: boolean,
    timeoutMs = 4_000,
  ): Promise<T> {
    const leader = this.#leader();
    if (!leader) throw new AppError("NOT_LEADER");
    // What the handler throws at once is the callee's answer too.
    const handler = async () => handle(leader.calls());
    return this.#network.call(this, leader, handler, { timeoutMs, idempotent });
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#world.after(ms, resolve));
  }

  /** Until it is answered, or refused for good. */
  async #repeat<T>(run: () => Promise<T>): Promise<T | undefined> {
    for (;;) {
      try {
        return await run();
      } catch (error) {
        const type = asAppError(error)?.type;
        if (type !== "TIMEOUT" && type !== "UNAVAILABLE" && type !== "NOT_LEADER") return undefined;
        await this.#sleep(this.#random.int(200, 3_000));
      }
    }
  }

  async #submit(operation: Submit): Promise<void> {
    const { job, owner, queue, priority, delayMs, attemptsMax } = operation;
    const request = {
      kind: "render",
      payload: { job },
      queue,
      owner,
      priority,
      delayMs,
      idempotencyKey: `key-${job}`,
      attemptsMax,
      backoffMs: 500,
      timeoutMs: 45_000,
      stallMs: 30_000,
      requires: {},
      onSettled: { action: "client.settled", params: { job } },
    };
    // Some are patient, and hear of a success that came late.
    const timeoutMs = job % 2 === 0 ? 4_000 : 14_000;
    const submit = () => this.#call((leader) => leader.submit(request), true, timeoutMs);
    // And some ask once only: what was stored of theirs must come to its end all the same.
    const answer = await (job % 3 === 2 ? submit().catch(() => undefined) : this.#repeat(submit));
    if (!answer) return;
    this.#world.note(() => `client: job ${job} is accepted as ${answer.id.slice(-6)}`);
    const known = this.jobs.get(job) ?? { ids: new Set() };
    known.ids.add(answer.id);
    this.jobs.set(job, known);
    this.#checkers.sameJob(`key-${job}`, known.ids);
  }

  /** The id of a job once it is known; none if it is not for a long time. */
  async #idOf(job: number): Promise<string | undefined> {
    for (let tries = 0; tries < 100; tries += 1) {
      const [id] = this.jobs.get(job)?.ids ?? [];
      if (id) return id;
      await this.#sleep(500);
    }
    return undefined;
  }

  async #cancel(job: number): Promise<void> {
    const id = await this.#idOf(job);
    if (!id) return;
    this.#world.note(() => `client: cancel job ${job}`);
    const answer = await this.#repeat(() =>
      this.#call(async (leader) => {
        const view = await leader.cancel(id, "no longer needed");
        // Here, where the leader answers, and not later: a retry may follow at once.
        this.#checkers.cancelHeard(id);
        return view;
      }, true),
    );
    if (answer) this.#world.note(() => `client: job ${job} is ${answer.state}`);
  }

  /** Not repeated: a second retry could start what somebody has cancelled in between. */
  async #retry(job: number): Promise<void> {
    const id = await this.#idOf(job);
    if (!id) return;
    this.#world.note(() => `client: retry job ${job}`);
    await this.#call((leader) => {
      this.#checkers.retryAsked(id);
      return leader.retry(id);
    }, false).catch(() => undefined);
  }

  async #pause(queue: string, forMs: number): Promise<void> {
    await this.#call((leader) => leader.pause(queue), false).catch(() => undefined);
    await this.#sleep(forMs);
    await this.#repeat(() => this.#call((leader) => leader.resume(queue), false));
  }
}

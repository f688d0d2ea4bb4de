import { AppError } from "../../lib/errors.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

export interface Rates {
  /** Shares of messages, 0 to 1. */
  loss: number;
  duplicate: number;
  /** Share of messages that take up to `lateMsMax` instead of a few milliseconds: they overtake each other. */
  late: number;
  lateMsMax: number;
}

export const calmRates: Rates = { loss: 0, duplicate: 0, late: 0, lateMsMax: 0 };

/** Whoever sends or receives; `incarnation` rises with each crash, and what belongs to an earlier one is dropped. */
export interface Party {
  readonly name: string;
  readonly incarnation: number;
  readonly isUp: boolean;
  /** Its machine stands still until then: nothing is lost, everything waits. */
  readonly frozenUntil?: number;
}

export interface CallOptions {
  timeoutMs: number;
  /** May arrive twice without harm. */
  idempotent: boolean;
}

/** Calls between parties over a network that loses, delays, doubles and reorders, and that can be cut. */
export class Network {
  rates: Rates;
  readonly #world: World;
  readonly #random: Random;
  readonly #cut = new Set<string>();

  constructor(world: World, rates: Rates) {
    this.#world = world;
    this.#random = world.random("network");
    this.rates = rates;
  }

  /** Cuts a party off from all others, or joins it again. */
  cut(name: string, isCut: boolean): void {
    if (isCut) this.#cut.add(name);
    else this.#cut.delete(name);
  }
  joinAll(): void {
    this.#cut.clear();
  }

  /** A call as a broker makes it: the answer, the callee's error, or a time-out that says nothing. */
  call<T>(
    from: Party,
    to: Party,
    handle: () => Promise<T>,
    { timeoutMs, idempotent }: CallOptions,
  ): Promise<T> {
    const { incarnation } = from;
    const promise = Promise.withResolvers<T>();
    let open = true;
    const settle = (act: () => void): boolean => {
      if (!open || from.incarnation !== incarnation || !from.isUp) return false;
      open = false;
      act();
      return true;
    };
    const deliver = (isFirst: boolean) =>
      this.#thawed(to, () => {
        if (!to.isUp || this.#isCut(from, to)) return;
        const callee = to.incarnation;
        const reply = (act: () => void) => {
          if (!isFirst || to.incarnation !== callee || !to.isUp) return;
          this.#send(from, to, () => this.#thawed(from, () => settle(act)));
        };
        handle().then(
          (answer) => reply(() => promise.resolve(answer)),
          (error) => reply(() => promise.reject(error)),
        );
      });
    this.#send(from, to, () => deliver(true));
    if (idempotent && this.#random.chance(this.rates.duplicate))
      this.#world.after(this.#random.int(1, 8_000), () => deliver(false));
    this.#world.after(
      timeoutMs,
      () =>
        open &&
        this.#thawed(from, () =>
          settle(() =>
            promise.reject(new AppError("TIMEOUT", { seconds: timeoutMs / 1000, what: to.name })),
          ),
        ),
    );
    return promise.promise;
  }

  #thawed(party: Party, run: () => unknown): void {
    const waitMs = (party.frozenUntil ?? 0) - this.#world.now;
    if (waitMs > 0) this.#world.after(waitMs, run);
    else run();
  }

  #isCut(from: Party, to: Party): boolean {
    return this.#cut.has(from.name) || this.#cut.has(to.name);
  }

  #send(from: Party, to: Party, arrive: () => void): void {
    if (this.#isCut(from, to) || this.#random.chance(this.rates.loss)) return;
    const delayMs = this.#random.chance(this.rates.late)
      ? this.#random.int(5, this.rates.lateMsMax)
      : this.#random.int(1, 5);
    this.#world.after(delayMs, arrive);
  }
}

/** One server that a node uses beside its own process: what `/readyz` shows of it. */
export interface DependencyState {
  /** `redis`, `mongodb`, `nats`, `s3` ... */
  name: string;
  state: "up" | "down";
  /** When it went into this state, in milliseconds since the epoch. */
  since: number;
  /** What does not work, or works less well, while it is down: one sentence for each user of it. */
  degrades: readonly string[];
  /** Without it the node cannot serve: it is not ready, rather than degraded. */
  essential: boolean;
  /** Why it is down, in words that carry no secret. */
  reason?: string;
}

interface Declared {
  /** One sentence of what does not work without it. */
  degrades: string;
  essential?: boolean;
}

/** What the user of a dependency gets to report its state with. */
export interface DependencyReporter {
  up(): void;
  /** @param reason Without secrets: an address may carry a password. */
  down(reason: string): void;
  /** This user needs it no more; with the last one the dependency leaves the list. */
  withdraw(): void;
}

interface Entry {
  state: "up" | "down";
  since: number;
  reason: string | undefined;
  users: Map<symbol, Required<Declared>>;
}

/** The servers that one node uses, with their states. Whoever holds a connection reports; `/readyz` reads. */
export class DependencyStates {
  readonly #entries = new Map<string, Entry>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /**
   * Names a dependency; it counts as down until somebody reports it up. Several users of one server declare it under
   * one name, each with what it loses.
   */
  declare(name: string, { degrades, essential = false }: Declared): DependencyReporter {
    const entry = this.#entries.get(name) ?? {
      state: "down",
      since: this.#now(),
      reason: "not connected yet",
      users: new Map(),
    };
    this.#entries.set(name, entry);
    const user = Symbol(name);
    entry.users.set(user, { degrades, essential });
    return {
      up: () => this.#report(entry, "up", undefined),
      down: (reason) => this.#report(entry, "down", reason),
      withdraw: () => {
        entry.users.delete(user);
        if (entry.users.size === 0 && this.#entries.get(name) === entry) this.#entries.delete(name);
      },
    };
  }

  /** Reports of the same state keep `since`; the reason is the latest one. */
  #report(entry: Entry, state: "up" | "down", reason: string | undefined): void {
    if (entry.state !== state) entry.since = this.#now();
    entry.state = state;
    entry.reason = reason;
  }

  /** All of them by name, as they are now. */
  list(): DependencyState[] {
    return [...this.#entries]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { state, since, reason, users }]) => ({
        name,
        state,
        since,
        degrades: [...new Set([...users.values()].map((user) => user.degrades))],
        essential: [...users.values()].some((user) => user.essential),
        ...(reason === undefined ? {} : { reason }),
      }));
  }
}

const byNode = new WeakMap<object, DependencyStates>();

/** The registry of the node with this configuration: two nodes of one process, as in tests, do not mix. */
export function dependenciesOf(config: object): DependencyStates {
  let states = byNode.get(config);
  if (!states) {
    states = new DependencyStates();
    byNode.set(config, states);
  }
  return states;
}

import type { Ms, NodeReport } from "./job.types.ts";
import type { Needs, NodeLoad } from "./placement.policy.ts";
import { rejection } from "./placement.policy.ts";

interface Held {
  jobId: string;
  attempt: number;
  /** Set while the attempt is being killed: its slot is free then at the latest. */
  stoppingUntil?: Ms;
}

interface NodeState {
  report: NodeReport;
  seenAt: Ms;
  suspect: boolean;
  /** Attempts that take a slot, by `jobId:attempt`. */
  held: Map<string, Held>;
  /** Boot ids that this node had before, newest last. */
  retiredBoots: string[];
}

const keyOf = (jobId: string, attempt: number) => `${jobId}:${attempt}`;

/** The nodes that have reported, and which of their slots are taken. Lives in memory: the store has the claims. */
export class NodeRegistry {
  readonly #nodes = new Map<string, NodeState>();
  /** Claims on nodes that have not reported yet, after a start of the scheduler. */
  readonly #early = new Map<string, Map<string, Held>>();
  readonly #limits: { retiredBootsMax: number; freshMs: number; forgetMs: number };

  constructor(limits: { retiredBootsMax: number; freshMs: number; forgetMs: number }) {
    this.#limits = limits;
  }

  /**
   * Takes a report. "late": it is of an earlier run of the node and must not be believed, unless nobody has heard
   * of the run that we know for a while: a message that was long on its way must not shut a node out for good. So
   * are reports that a later one of the same run has overtaken: what they list is no longer so.
   */
  report(report: NodeReport, now: Ms): "same" | "new-boot" | "late" {
    const node = this.#nodes.get(report.node);
    if (!node) {
      const held = this.#early.get(report.node) ?? new Map();
      this.#early.delete(report.node);
      this.#nodes.set(report.node, {
        report,
        seenAt: now,
        suspect: false,
        held,
        retiredBoots: [],
      });
      return "new-boot";
    }
    const sameBoot = node.report.boot === report.boot;
    if (sameBoot && isOvertaken(report, node.report)) return "late";
    if (!sameBoot) {
      const isEarlier = node.retiredBoots.includes(report.boot) || report.boot < node.report.boot;
      if (isEarlier && now - node.seenAt <= this.#limits.freshMs) return "late";
      node.retiredBoots = node.retiredBoots.filter((boot) => boot !== report.boot);
      node.retiredBoots.push(node.report.boot);
      if (node.retiredBoots.length > this.#limits.retiredBootsMax) node.retiredBoots.shift();
      // Nothing of the earlier run lives any more.
      for (const [key, held] of node.held)
        if (held.stoppingUntil !== undefined) node.held.delete(key);
    }
    node.report = report;
    node.seenAt = now;
    node.suspect = false;
    return sameBoot ? "same" : "new-boot";
  }

  bootOf(node: string): string | undefined {
    return this.#nodes.get(node)?.report.boot;
  }

  occupy(node: string, jobId: string, attempt: number): void {
    this.#heldOf(node).set(keyOf(jobId, attempt), { jobId, attempt });
  }

  release(node: string, jobId: string, attempt: number): void {
    this.#heldOf(node).delete(keyOf(jobId, attempt));
  }

  /** The attempt is being killed: its slot stays taken until the node says so, or this time. */
  stopping(node: string, jobId: string, attempt: number, until: Ms): void {
    this.#nodes
      .get(node)
      ?.held.set(keyOf(jobId, attempt), { jobId, attempt, stoppingUntil: until });
  }

  /** The node has reported what it holds: what was being killed and is not in the list is gone. */
  listed(node: string, attempts: readonly { jobId: string; attempt: number }[]): void {
    const names = new Set(attempts.map(({ jobId, attempt }) => keyOf(jobId, attempt)));
    for (const [key, held] of this.#heldOf(node))
      if (held.stoppingUntil !== undefined && !names.has(key)) this.#heldOf(node).delete(key);
  }

  /** No new work until it reports again. */
  suspect(node: string): void {
    const state = this.#nodes.get(node);
    if (state) state.suspect = true;
  }

  draining(node: string, boot: string): void {
    const state = this.#nodes.get(node);
    if (state?.report.boot === boot) state.report = { ...state.report, draining: true };
  }

  /** Frees slots of attempts whose killing took too long to matter, and forgets nodes that are long gone. */
  sweep(now: Ms): void {
    for (const [name, node] of this.#nodes) {
      for (const [key, held] of node.held)
        if (held.stoppingUntil !== undefined && held.stoppingUntil <= now) node.held.delete(key);
      if (now - node.seenAt > this.#limits.forgetMs && node.held.size === 0)
        this.#nodes.delete(name);
    }
  }

  /** When the next slot comes free by itself. */
  nextSweepAt(): Ms | undefined {
    let next: Ms | undefined;
    for (const { held } of this.#nodes.values())
      for (const { stoppingUntil } of held.values())
        if (stoppingUntil !== undefined && (next === undefined || stoppingUntil < next))
          next = stoppingUntil;
    return next;
  }

  /** Nodes as placement sees them. */
  *loads(): Iterable<NodeLoad> {
    for (const { report, held, seenAt, suspect } of this.#nodes.values())
      yield { report, used: held.size, seenAt, suspect };
  }

  hasRoom(needs: Needs, now: Ms): boolean {
    for (const load of this.loads())
      if (!rejection(needs, load, now, this.#limits.freshMs)) return true;
    return false;
  }

  /** Any free slot at all: a quick look before a closer one. */
  hasFreeSlot(): boolean {
    for (const { report, held } of this.#nodes.values())
      if (held.size < report.slots && !report.draining) return true;
    return false;
  }

  #heldOf(node: string): Map<string, Held> {
    const state = this.#nodes.get(node);
    if (state) return state.held;
    let early = this.#early.get(node);
    if (!early) {
      early = new Map();
      this.#early.set(node, early);
    }
    return early;
  }
}

const isOvertaken = (report: NodeReport, latest: NodeReport): boolean =>
  report.beat !== undefined && latest.beat !== undefined && report.beat < latest.beat;

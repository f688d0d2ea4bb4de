import type { Job, Ms } from "./job.types.ts";
import { MinHeap } from "./min-heap.ts";
import { isFullyAged, levelOf, orderKey } from "./placement.policy.ts";

interface Entry {
  id: string;
  key: number;
  /** Order of arrival, for equal keys. */
  seq: number;
  readyAt: Ms;
  live: boolean;
  job: Job;
}

/** The waiting jobs of one owner in one lane. */
interface Line {
  owner: string;
  entries: MinHeap<Entry>;
  live: number;
  /** Its turn: smaller goes first; a new one is drawn each time it was served. */
  turn: number;
  /** Only the place in the lane that carries this number is valid. */
  place: number;
}

interface Spot {
  line: Line;
  place: number;
  level: number;
  turn: number;
}

/** Jobs that fit the same nodes and are paused together. */
export interface Lane {
  queue: string;
  kind: string;
  gpu: boolean;
}

interface LaneState extends Lane {
  lines: Map<string, Line>;
  /** Owners whose first job is still ageing, by level, then turn. */
  ageing: MinHeap<Spot>;
  /** Owners whose first job is fully aged, by turn alone. */
  aged: MinHeap<Spot>;
}

const laneKey = ({ spec }: Job) =>
  `${spec.queue}\0${spec.kind}\0${spec.requires.gpu === true ? 1 : 0}`;

/**
 * Waiting jobs in the order of the placement policy. Adding, taking and removing cost O(log n), whatever waits; the
 * clock only moves when asked. Removed entries stay in their heap until they surface or are half of it.
 */
export class PendingIndex {
  readonly #agePointMs: number;
  readonly #entries = new Map<string, { entry: Entry; lane: LaneState; line?: Line }>();
  readonly #lanes = new Map<string, LaneState>();
  readonly #delayed = new MinHeap<Entry>((a, b) => a.readyAt < b.readyAt);
  #delayedLive = 0;
  #seq = 0;
  #turn = 0;
  #place = 0;

  constructor(agePointMs: number) {
    this.#agePointMs = agePointMs;
  }

  /** Jobs that wait, delayed ones included. */
  get size(): number {
    return this.#entries.size;
  }
  /** Jobs that could be placed now. */
  get readyCount(): number {
    return this.#entries.size - this.#delayedLive;
  }

  /** Adds a pending job, or takes note that it changed. */
  add(job: Job & { state: "pending" }, now: Ms): void {
    this.remove(job.spec.id);
    const entry: Entry = {
      id: job.spec.id,
      key: orderKey(job.spec, this.#agePointMs),
      seq: ++this.#seq,
      readyAt: job.readyAt,
      live: true,
      job,
    };
    const lane = this.#laneOf(job);
    this.#entries.set(entry.id, { entry, lane });
    if (job.readyAt > now) {
      this.#delayed.push(entry);
      this.#delayedLive += 1;
    } else this.#enter(entry);
  }

  remove(id: string): void {
    const found = this.#entries.get(id);
    if (!found) return;
    this.#entries.delete(id);
    found.entry.live = false;
    if (found.line) this.#shrink(found.lane, found.line);
    else {
      this.#delayedLive -= 1;
      if (this.#delayed.size > 2 * this.#delayedLive + 64) this.#delayed.filter((e) => e.live);
    }
  }

  /** Makes delayed jobs that are due ready. */
  promote(now: Ms): void {
    for (let top = this.#delayed.peek(); top; top = this.#delayed.peek()) {
      if (top.live && top.readyAt > now) return;
      this.#delayed.pop();
      if (!top.live) continue;
      this.#delayedLive -= 1;
      this.#enter(top);
    }
  }

  /** When the next delayed job is due. */
  nextReadyAt(): Ms | undefined {
    for (let top = this.#delayed.peek(); top; top = this.#delayed.peek()) {
      if (top.live) return top.readyAt;
      this.#delayed.pop();
    }
    return undefined;
  }

  /** Takes out the job whose turn it is, among the lanes for which there is room. */
  take(now: Ms, hasRoom: (lane: Lane) => boolean): Job | undefined {
    let best: LaneState | undefined;
    let bestSpot: Spot | undefined;
    for (const lane of this.#lanes.values()) {
      if (!hasRoom(lane)) continue;
      const spot = this.#front(lane, now);
      if (spot && (!bestSpot || this.#comesBefore(spot, bestSpot, now))) {
        best = lane;
        bestSpot = spot;
      }
    }
    if (!best || !bestSpot) return undefined;
    const { line } = bestSpot;
    const entry = this.#head(line)!;
    line.entries.pop();
    this.#entries.delete(entry.id);
    entry.live = false;
    line.live -= 1;
    line.turn = ++this.#turn;
    this.#settle(best, line);
    return entry.job;
  }

  #laneOf(job: Job): LaneState {
    const key = laneKey(job);
    let lane = this.#lanes.get(key);
    if (!lane) {
      const byTurn = (a: Spot, b: Spot) => a.turn < b.turn;
      lane = {
        queue: job.spec.queue,
        kind: job.spec.kind,
        gpu: job.spec.requires.gpu === true,
        lines: new Map(),
        ageing: new MinHeap((a, b) => a.level < b.level || (a.level === b.level && byTurn(a, b))),
        aged: new MinHeap(byTurn),
      };
      this.#lanes.set(key, lane);
    }
    return lane;
  }

  #enter(entry: Entry): void {
    const found = this.#entries.get(entry.id)!;
    // The lane may have been dropped while the job was delayed.
    const lane = this.#laneOf(entry.job);
    const { owner } = entry.job.spec;
    let line = lane.lines.get(owner);
    if (!line) {
      const entries = new MinHeap<Entry>(
        (a, b) => a.key < b.key || (a.key === b.key && a.seq < b.seq),
      );
      line = { owner, entries, live: 0, turn: ++this.#turn, place: 0 };
      lane.lines.set(owner, line);
    }
    const before = this.#head(line);
    line.entries.push(entry);
    line.live += 1;
    found.lane = lane;
    found.line = line;
    if (this.#head(line) !== before) this.#stand(lane, line);
  }

  /** Gives a line its place in the lane, by its first job. */
  #stand(lane: LaneState, line: Line): void {
    const head = this.#head(line)!;
    line.place = ++this.#place;
    lane.ageing.push({
      line,
      place: line.place,
      level: levelOf(head.key, this.#agePointMs),
      turn: line.turn,
    });
    if (lane.ageing.size > 2 * lane.lines.size + 64) lane.ageing.filter(isValid);
    if (lane.aged.size > 2 * lane.lines.size + 64) lane.aged.filter(isValid);
  }

  /** After a line lost its first job. */
  #settle(lane: LaneState, line: Line): void {
    if (line.live > 0) this.#stand(lane, line);
    else this.#drop(lane, line);
  }

  #drop(lane: LaneState, line: Line): void {
    line.place = 0;
    lane.lines.delete(line.owner);
    if (lane.lines.size > 0) return;
    this.#lanes.delete(`${lane.queue}\0${lane.kind}\0${lane.gpu ? 1 : 0}`);
  }

  /** A job that waited was removed. */
  #shrink(lane: LaneState, line: Line): void {
    line.live -= 1;
    if (line.live === 0) {
      this.#drop(lane, line);
      return;
    }
    if (line.entries.size > 2 * line.live + 64) line.entries.filter((entry) => entry.live);
    if (line.entries.peek()?.live === false) this.#stand(lane, line);
  }

  #head(line: Line): Entry | undefined {
    for (let top = line.entries.peek(); top; top = line.entries.peek()) {
      if (top.live) return top;
      line.entries.pop();
    }
    return undefined;
  }

  /** The owner whose turn it is in a lane. Those whose first job is fully aged go before all others. */
  #front(lane: LaneState, now: Ms): Spot | undefined {
    for (let top = lane.ageing.peek(); top; top = lane.ageing.peek()) {
      if (isValid(top) && !isFullyAged(top.level, now, this.#agePointMs)) break;
      lane.ageing.pop();
      if (isValid(top)) lane.aged.push(top);
    }
    for (let top = lane.aged.peek(); top; top = lane.aged.peek()) {
      if (isValid(top)) return top;
      lane.aged.pop();
    }
    return lane.ageing.peek();
  }

  #comesBefore(a: Spot, b: Spot, now: Ms): boolean {
    const aAged = isFullyAged(a.level, now, this.#agePointMs);
    const bAged = isFullyAged(b.level, now, this.#agePointMs);
    if (aAged !== bAged) return aAged;
    if (!aAged && a.level !== b.level) return a.level < b.level;
    return a.turn < b.turn;
  }
}

const isValid = (spot: Spot) => spot.line.place === spot.place;

import type { Random } from "../../test/simulation/random.ts";

/** What can be done to a cluster. */
export const faultKinds = [
  "kill-compose",
  "lose-compose",
  "replace-compose",
  "kill-gateway",
  "kill-leader",
  "kill-platform",
  "freeze-compose",
  "freeze-leader",
  "restart-nats",
  "restart-redis",
  "restart-database",
  "restart-s3",
  "cut-compose",
  "fill-disk",
  "jump-clock",
] as const;
export type FaultKind = (typeof faultKinds)[number];

export interface PlannedFault {
  kind: FaultKind;
  /** From the start of the faults. */
  atMs: number;
  /** How long it lasts until it is undone. */
  forMs: number;
  /** 0 to 1: which of the possible targets. */
  choice: number;
}

/** Share of each kind, and for how long it lasts. Freezes are longer than the leases: 20 s of a node, 6 s of a leader. */
const shapes: Readonly<Record<FaultKind, { weight: number; forMs: readonly [number, number] }>> = {
  "kill-compose": { weight: 6, forMs: [300, 3_000] },
  "lose-compose": { weight: 3, forMs: [24_000, 30_000] },
  "replace-compose": { weight: 2, forMs: [2_000, 6_000] },
  "kill-gateway": { weight: 4, forMs: [300, 3_000] },
  "kill-leader": { weight: 4, forMs: [1_000, 8_000] },
  "kill-platform": { weight: 2, forMs: [300, 2_000] },
  "freeze-compose": { weight: 3, forMs: [22_000, 30_000] },
  "freeze-leader": { weight: 3, forMs: [7_000, 12_000] },
  "restart-nats": { weight: 2, forMs: [200, 3_000] },
  "restart-redis": { weight: 2, forMs: [200, 4_000] },
  "restart-database": { weight: 2, forMs: [200, 3_000] },
  "restart-s3": { weight: 2, forMs: [200, 4_000] },
  "cut-compose": { weight: 4, forMs: [3_000, 28_000] },
  "fill-disk": { weight: 2, forMs: [3_000, 10_000] },
  "jump-clock": { weight: 3, forMs: [3_000, 15_000] },
};

/**
 * The faults of a run. Each kind that is possible here comes at least once, as far as the count allows; the rest is
 * drawn by weight.
 */
export function planFaults(
  random: Random,
  options: { faults: number; overMs: number; possible: readonly FaultKind[] },
): PlannedFault[] {
  const { faults, overMs, possible } = options;
  if (possible.length === 0 || faults === 0) return [];
  const bag = possible.flatMap((kind) => Array<FaultKind>(shapes[kind].weight).fill(kind));
  const kinds: FaultKind[] = [...possible].slice(0, faults);
  while (kinds.length < faults) kinds.push(random.pick(bag));
  for (let at = kinds.length - 1; at > 0; at -= 1) {
    const other = random.int(0, at);
    [kinds[at], kinds[other]] = [kinds[other] as FaultKind, kinds[at] as FaultKind];
  }
  const gapMs = overMs / faults;
  return kinds.map((kind, n) => ({
    kind,
    atMs: Math.round(n * gapMs + random.next() * gapMs),
    forMs: random.int(...(shapes[kind].forMs as [number, number])),
    choice: random.next(),
  }));
}

/** Number of inserted, removed, replaced or swapped letters between two words. */
export function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1];
      const swapped =
        row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      next.push(
        Math.min(
          next[column - 1]! + 1,
          last[column]! + 1,
          last[column - 1]! + (same ? 0 : 1),
          swapped ? before[column - 2]! + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    before = last;
    last = next;
  }
  return last[b.length]!;
}

const plain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");

/**
 * The known name that was probably meant: the same letters in another notation, one that begins or ends
 * like it, or one few typing errors away. Undefined where none is near.
 */
export function nearestName(given: string, known: readonly string[]): string | undefined {
  const wanted = plain(given);
  // A long one is no typing error, and comparing it would cost its length for each name.
  if (wanted === "" || wanted.length > 64) return undefined;
  const ranked = known
    .map((name) => {
      const candidate = plain(name);
      const contained =
        Math.min(wanted.length, candidate.length) >= 3 &&
        (candidate.includes(wanted) || wanted.includes(candidate));
      return { name, distance: contained ? 1 : editDistance(wanted, candidate) };
    })
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  return best && best.distance <= Math.max(1, Math.floor(wanted.length / 3))
    ? best.name
    : undefined;
}

/** One line of the summary. */
export interface Compared {
  what: string;
  source: number;
  /** Of what the source has, how much the target has, like it or not. */
  target: number;
  /** What only the target has. */
  others: number;
  bytes?: number;
  sourceHash: string;
  targetHash: string;
  /** One sentence for each difference, up to a bound. */
  differences: string[];
  differing: number;
}

export const isEqual = ({ source, target, sourceHash, targetHash, differing }: Compared) =>
  source === target && sourceHash === targetHash && differing === 0;

/** The summary as people read it: a line of each kind, then every difference that is named. */
export function summaryOf(rows: readonly Compared[]): string {
  const header = ["", "source", "target", "others", "bytes", "equal", "sha256"];
  const cells = rows.map((row) => [
    row.what,
    `${row.source}`,
    `${row.target}`,
    `${row.others}`,
    row.bytes === undefined ? "" : `${row.bytes}`,
    isEqual(row) ? "yes" : "NO",
    isEqual(row)
      ? row.sourceHash.slice(0, 12)
      : `${row.sourceHash.slice(0, 12)} ${row.targetHash.slice(0, 12)}`,
  ]);
  const widths = header.map((title, n) =>
    Math.max(title.length, ...cells.map((cell) => cell[n]!.length)),
  );
  const table = [header, ...cells].map((cell) =>
    cell
      .map((text, n) => (n === 0 || n > 4 ? text.padEnd(widths[n]!) : text.padStart(widths[n]!)))
      .join("  ")
      .trimEnd(),
  );
  const differences = rows.flatMap(({ what, differences: named, differing }) => [
    ...named.map((sentence) => `differs: ${sentence}`),
    ...(differing > named.length ? [`differs: ${differing - named.length} more of ${what}`] : []),
  ]);
  return [...table, ...differences].join("\n");
}
